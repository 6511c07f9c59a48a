/// Keys made for these tests alone.
enum TestKeys {
    static let rsaAPrivate = """
        -----BEGIN PRIVATE KEY-----
        MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQCqZZaRFeC4MKzD
        nFVLO0I+WdFowqDmzl6oUNk0UNMcSqMSEzvedvQ2xyGRHvmOWWQKJE79v4ba28Wb
        YNla72E4fMyNNT5FlAASz6IX2/+bcDUexIDgSseDLNq3o84lM3NmSp8230wAgOia
        LtuJ7oIsExf7By7MlT6xV0sj1Yk2RhzCzPt/cx2U/uO/UyfdflbS5//f/6aHXpZF
        L0PdOBaqzk6VOaiqUl4jHS/Iw+ZIwcZvB0zg3zq47HOw6BRED3T4+eVO3a00SY+m
        U9PhrPGz2SBr5A/geePxubIFvzZPfth2xjJaD4AJbnkEtbxGS5DuG5gb7gX8rdCl
        wWoDFSGxAgMBAAECggEAOyrIQ/vBSqPYMZokwdlDUMw2WzaN0WciVjawnSpdi8rc
        4edc2AwdE7JElRQY2pVul9jwtsqdBHzgmmngP2O0sf0ft/6fb2CLP/zqD3fcQziM
        sXDRQVCmA4X9MlwGNkOt0/ygWVjjFp+sZPFVWQlBGRXOM2PUm8RM/x5NIJXCrd3M
        Y0QN0ZWNgYBvWefHW5u4PS5/j+w0n64tq4MkKdTH4bAEN0tPUu+GoxIdu0B7Ds4y
        hINCWgD3jjC6rhzcgPAhkm+goyX6hpBbmbIuh9ig6Nk7+ogFG4KaFp6QmowyZXjJ
        SYOdpCXlmyV+8qkzLbjZQ/pFO+rWpbafX/7zSivrwwKBgQDbH5G6eEn0y6sPPz/n
        Gfw0C39DwREIuGDlm2zZF7p5We+jj7pV9mqJb3zNEDPDG6y5p6JbbpGtasWI1JQc
        5NNmT7N3PO6ozb7ivVuce66JXBCA+bao2CVv0vIJz3NdRhjIHZMAl2vKGrAxPDFF
        LOv4YsHS7kb1CZriglTNN4eELwKBgQDHEr+tTCwoA+YZIT7tJD4BOQKGQ7tf0bzz
        YcgLpUz/TLhJJaSBzrKy0SXnJuVk5fW18P3xptLL4Qiyb018OcLJhVYTxcdVHwBp
        RBfgK1HuuAWWBBKTjs9huvpbMN7hPFiEOfvOOLKBrwN2xsQ32Ae7Rgq5Fq4kNUew
        hfpO8m3gHwKBgQCYqvUgo0B70w8ar2m5fUxPgpcnwLM6jSPNta1vz+13MScaoUAl
        Nmth2BBu21QFIxoDu/0NkQrkdVitjdaoDvIO/Ya/k++AIuFVHrNeYnnncAJ7qgAO
        wZHLyIAkP6pUGUuY2aobJmTOSivqEdMOLE84Hq6GZMeBYDDOkhm9ZWwAtwKBgBgJ
        Sn15Kge22MyF+BwX+SiaopRljzU1lNPqJYZKci6NK98hHWjS9T6kBCiRyLbTEUTj
        kTXhR6h4Rl2NFNUAAGXmpIsEoVnEwX70StG1SVJCg+ImIbwRTTbmpZ3nG7IkYCeu
        /JlcvSjtYcSwoTaA7gYNofPRKjuS91H4C04G9X9PAoGBAKpQUPUjSkJpmLcG/x1i
        SPhEdNS/ZSK0aW3HpGPLa4v8ubhTJihhzNx+eRiH4vRr2V5Kv8Kzi1KdNpL0j9p7
        vDCItKIsSw94zuIjfiiQlf87xULbmYyWJjDrSg9wXVknvKyBJl6+pot9C/gRDA/C
        RnuEUBNy5amiiRAGZ+keR8DK
        -----END PRIVATE KEY-----
        """
    static let rsaAPublic = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAqmWWkRXguDCsw5xVSztC
        PlnRaMKg5s5eqFDZNFDTHEqjEhM73nb0NschkR75jllkCiRO/b+G2tvFm2DZWu9h
        OHzMjTU+RZQAEs+iF9v/m3A1HsSA4ErHgyzat6POJTNzZkqfNt9MAIDomi7bie6C
        LBMX+wcuzJU+sVdLI9WJNkYcwsz7f3MdlP7jv1Mn3X5W0uf/3/+mh16WRS9D3TgW
        qs5OlTmoqlJeIx0vyMPmSMHGbwdM4N86uOxzsOgURA90+PnlTt2tNEmPplPT4azx
        s9kga+QP4Hnj8bmyBb82T37YdsYyWg+ACW55BLW8RkuQ7huYG+4F/K3QpcFqAxUh
        sQIDAQAB
        -----END PUBLIC KEY-----
        """
    static let rsaBPrivate = """
        -----BEGIN PRIVATE KEY-----
        MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQDIjLeLIyPOuzg0
        4ypsiRggGk78QYUS205SoonRFsaBP1puOGK/FqcCjMgWU/vUHqY3QzEFimH0HriK
        7pkl44nmOuQ7mCGgIsywMEH4XaPWyhbGLsxpZmrJEx/lO8QIPmJk9jWrcq2snyJm
        YNCmPxY4t8RJD0GZQg7tpITH24TmM5igwjxO7pTb+S7Sg//xvw2GvPduTlJXY3DC
        lfBERn4QHOqJ86m5Vs8VY0duBqFMvNOCKJz2huobSASCopAQtumhk/Z5gPtw2QPF
        NXN0w9UN0LIqYzZyyQS67Z3OXctBGYWkjQd6582spm4TFNWZOrj0bc6GacMIO2Km
        cdUT8xjrAgMBAAECggEAXoDk2tVvwbK6fT2Q171Ql4weLUOotCaQxWLfY56CYxRa
        Bjde3OINSCfT/6WKtT3OIJtyhcRcfT9eweVGWLLc4BdfRm/dZIsRfnL3G1Tw6D2p
        trEF1SMUbfUrogdkTGgtUJsu1kA/c+k3OhwkJjrzOz3pam4cgN4+j6Bni5A3k4vl
        rWXoPI1Dcv8g2a6hmA9e6MsHBVLdBxfj2MhSGr6qs8DMk+4o+vwuojP3MmP+SW2r
        Q4CorKdcXDLLox3ETj6waahdSkJaZleXdk+4pQxJE+6X6UZw++qFIkq1WNTgAG/n
        ppcR5U+rKJopVAHlCaDLv/KplMcMbWPIf6vueQQawQKBgQDzCm6N+H3Q16zkmct9
        +Fxjmqznw8ctKJNZ+AFnYcMROvvcfOZMOmoGlrBj682neK3/m22BBqmBm7Ywr39v
        TAbDCfNs9Ny/ks870HirsZr+8F1f/1k81V/E7ShxNBBz/lIT+oYOYzpQFp/m545Z
        MFbdaplLhfYIZyQlQh3rm7RUqwKBgQDTPkVo19XPczGvpA2Z40LVF6dM3D670umD
        bHB1tfBGWFoFiSkPpeaXB0NYotpAH7MoKZgyTbW30NWVOSo8pEBacsx7/Am2YEH+
        YrRGkpidacU0rvrR2fYtp9BgVksYhgDggL5oMGvYrUuqwnAM1DUFW1j6OcwyZGB5
        ZD3HIpXMwQKBgQDJ4mV5SuwAGdfFQLeXWUItfuOX1bnSmjzkZC2OWdf2rR9fxORs
        d61w8aVuKwb20Tj/9XUd05HkVpsdj/p0Uhvf0ZlCbZgdDm9USVSjknGkybdWsb7H
        2Jqn8zQ/7LaqE5zMebL3qpdaxaBn5vsIvS262PyjjpCT5FFTHbvK5dkC5wKBgQCJ
        2KLWjbG6U8NiiD1P5FsiTvMfVsGhMzqqRkMErRsD7HeiESU4TtwwRc8OsgaVvZnd
        ZXcprEgekSou3ETRmaVc4HjLl2aHGj02URauzs7EOdc0T9Lgyci5dj6l/um2MQu1
        dI3L030swbkUzxjrZjbLLhbcAodbguDplh4yKkFygQKBgAHdY3v3x760zIG/NpFQ
        s3GfTZ5kGc2cOZGYgeBJBSnQwG752GIJlmuncPXXLSPUGgqRm0+91/zgSs3cmFhw
        Nc3xPjAuPl+tQQkxNnlvpYBleVFXWk9HT9BmqRlI5R7/O1VwqyxvTTipyQn4R0n1
        lCVKmfvGSxWLMuBZIyUG3wvG
        -----END PRIVATE KEY-----
        """
    static let rsaBPublic = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAyIy3iyMjzrs4NOMqbIkY
        IBpO/EGFEttOUqKJ0RbGgT9abjhivxanAozIFlP71B6mN0MxBYph9B64iu6ZJeOJ
        5jrkO5ghoCLMsDBB+F2j1soWxi7MaWZqyRMf5TvECD5iZPY1q3KtrJ8iZmDQpj8W
        OLfESQ9BmUIO7aSEx9uE5jOYoMI8Tu6U2/ku0oP/8b8Nhrz3bk5SV2NwwpXwREZ+
        EBzqifOpuVbPFWNHbgahTLzTgiic9obqG0gEgqKQELbpoZP2eYD7cNkDxTVzdMPV
        DdCyKmM2cskEuu2dzl3LQRmFpI0HeufNrKZuExTVmTq49G3OhmnDCDtipnHVE/MY
        6wIDAQAB
        -----END PUBLIC KEY-----
        """
    static let ecAPrivate = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgEdR/FcvWnUBArmnx
        SGhP2jgxQZ2Lke6gr9vXjsJHNxOhRANCAARMfkaAc0qGIMlC/F5B/SJj5JsfZfp7
        qoGB46/oQk9XtRbvVxJQMDSKVcCQcZWRW2r7fXHfQ+qrXS3RX62tAiMO
        -----END PRIVATE KEY-----
        """
    static let ecAPublic = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAETH5GgHNKhiDJQvxeQf0iY+SbH2X6
        e6qBgeOv6EJPV7UW71cSUDA0ilXAkHGVkVtq+31x30Pqq10t0V+trQIjDg==
        -----END PUBLIC KEY-----
        """
    static let ecBPrivate = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgDYgg3MOqtimM8Ps5
        Xdli1Rz701um3zmsSiPDqE2b1A6hRANCAASDPa8oym8g+w6a5GlfVTBnqb9xV5K2
        yLvfCuDE2UT8dGjf7UlzawDKB0XBV76BAm6VOwVXOleGb4mZeTSwFFRO
        -----END PRIVATE KEY-----
        """
    static let ecBPublic = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEgz2vKMpvIPsOmuRpX1UwZ6m/cVeS
        tsi73wrgxNlE/HRo3+1Jc2sAygdFwVe+gQJulTsFVzpXhm+JmXk0sBRUTg==
        -----END PUBLIC KEY-----
        """
    static let rsa1024Public = """
        -----BEGIN PUBLIC KEY-----
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDDzg/5P1B9+uJ0cgcjBd1Br8Ni
        l3y8J6QUg5ooaew0MT1qZRLVPTomuG7kxwXvqcjpoj4NCESk4rDAabjJTXi7s2Rp
        jLjQXqJJ9rtYFkw0CLwkoQm5YGppCOMjG5uTKjgP+pEzPvkgjgDRgDqc7eZvlj5K
        71Iqt9qxS8/cYyMMYwIDAQAB
        -----END PUBLIC KEY-----
        """
    static let p384Public = """
        -----BEGIN PUBLIC KEY-----
        MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEHPBeF5d2Xi+ypNVbbbJ1BMTNTbn8EZH3
        KqEwip3bbVSHnAevPaoR/U3N3VJkB5yO9zSJX8A4wJjRrI46RA5QbbDvEjPlch+y
        R6LsBRI/odyu9KAxYF09V0jXJMvY8wmY
        -----END PUBLIC KEY-----
        """
    static let ed25519Public = """
        -----BEGIN PUBLIC KEY-----
        MCowBQYDK2VwAyEAKz6LAH60AS/tu6L/wxuUjsjLNNX2v5oMWMQYc9ktYTY=
        -----END PUBLIC KEY-----
        """
    static let lockedPrivate = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjMekt2e45H+AICCAAw
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEAQIEEMqUNvzZk5UrIO0jaTg1XMkEgZBe
        +idnquWiEGeYZX2YuwvHoWVJAFgLHZCiN1ybPsPzoLRVD6ayRSM2Maxl7d0o0d4d
        o1n3Q553VLLuSl2OeAxmQsqMmARoTOQblvdcHZ2EzyVF60lpG97aKUndbGVLiO/l
        6vTq3pIcWcmPS0cUqmb1OCCdY9jBIC6RqWTLoZRUtiIHo2s8TqKNJodnXIHNFgk=
        -----END ENCRYPTED PRIVATE KEY-----
        """
    /// Of `ecA`, issued by `authorityCertificate`, which is of `ecB`.
    static let leafCertificate = """
        -----BEGIN CERTIFICATE-----
        MIIBHzCBxgIUdi6QGgIaCu+a5rqi/j/X46KRWSEwCgYIKoZIzj0EAwIwFDESMBAG
        A1UEAwwJYXV0aG9yaXR5MB4XDTI2MTEzMDE3MzIwOVoXDTI2MTIwMTE3MzIwOVow
        ETEPMA0GA1UEAwwGaXNzdWVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAETH5G
        gHNKhiDJQvxeQf0iY+SbH2X6e6qBgeOv6EJPV7UW71cSUDA0ilXAkHGVkVtq+31x
        30Pqq10t0V+trQIjDjAKBggqhkjOPQQDAgNIADBFAiAmnEGFgOzfi5hwjisprqsV
        Qmk8UZY1yVf1UWNdgjgH2gIhAL5JGTXTqQH9enS90TtH31TMuSnO58LSH2lHXj1g
        eGe5
        -----END CERTIFICATE-----
        """
    static let authorityCertificate = """
        -----BEGIN CERTIFICATE-----
        MIIBfDCCASOgAwIBAgIUe6gY1FJv6uGdzCuwZcw3V1jwUywwCgYIKoZIzj0EAwIw
        FDESMBAGA1UEAwwJYXV0aG9yaXR5MB4XDTI2MTEzMDE3MzIwOVoXDTI2MTIwMTE3
        MzIwOVowFDESMBAGA1UEAwwJYXV0aG9yaXR5MFkwEwYHKoZIzj0CAQYIKoZIzj0D
        AQcDQgAEgz2vKMpvIPsOmuRpX1UwZ6m/cVeStsi73wrgxNlE/HRo3+1Jc2sAygdF
        wVe+gQJulTsFVzpXhm+JmXk0sBRUTqNTMFEwHQYDVR0OBBYEFDUC3T+bavW4sk+a
        A/atKKruF/OFMB8GA1UdIwQYMBaAFDUC3T+bavW4sk+aA/atKKruF/OFMA8GA1Ud
        EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgGNgjqBiYeQ3ONsj+IEOOKeEs
        /wDM6tdXBUVqiiM6TzECIHVwBVXz7awMBcwHYvNqyaMo09WrajMIU1vFgh+Up1BV
        -----END CERTIFICATE-----
        """
    static let rsaAModulus =
        "qmWWkRXguDCsw5xVSztCPlnRaMKg5s5eqFDZNFDTHEqjEhM73nb0NschkR75jllkCiRO_b-G2tvFm2DZWu9hOHzMjT"
        + "U-RZQAEs-iF9v_m3A1HsSA4ErHgyzat6POJTNzZkqfNt9MAIDomi7bie6CLBMX-wcuzJU-sVdLI9WJNkYcwsz7f3Md"
        + "lP7jv1Mn3X5W0uf_3_-mh16WRS9D3TgWqs5OlTmoqlJeIx0vyMPmSMHGbwdM4N86uOxzsOgURA90-PnlTt2tNEmPpl"
        + "PT4azxs9kga-QP4Hnj8bmyBb82T37YdsYyWg-ACW55BLW8RkuQ7huYG-4F_K3QpcFqAxUhsQ"
    static let rsaBModulus =
        "yIy3iyMjzrs4NOMqbIkYIBpO_EGFEttOUqKJ0RbGgT9abjhivxanAozIFlP71B6mN0MxBYph9B64iu6ZJeOJ5jrkO5"
        + "ghoCLMsDBB-F2j1soWxi7MaWZqyRMf5TvECD5iZPY1q3KtrJ8iZmDQpj8WOLfESQ9BmUIO7aSEx9uE5jOYoMI8Tu6U"
        + "2_ku0oP_8b8Nhrz3bk5SV2NwwpXwREZ-EBzqifOpuVbPFWNHbgahTLzTgiic9obqG0gEgqKQELbpoZP2eYD7cNkDxT"
        + "VzdMPVDdCyKmM2cskEuu2dzl3LQRmFpI0HeufNrKZuExTVmTq49G3OhmnDCDtipnHVE_MY6w"
    static let rsa1024Modulus =
        "w84P-T9QffridHIHIwXdQa_DYpd8vCekFIOaKGnsNDE9amUS1T06Jrhu5McF76nI6aI-DQhEpOKwwGm4yU14u7NkaY"
        + "y40F6iSfa7WBZMNAi8JKEJuWBqaQjjIxubkyo4D_qRMz75II4A0YA6nO3mb5Y-Su9SKrfasUvP3GMjDGM"
    static let ecAPoint = (
        x: "TH5GgHNKhiDJQvxeQf0iY-SbH2X6e6qBgeOv6EJPV7U",
        y: "Fu9XElAwNIpVwJBxlZFbavt9cd9D6qtdLdFfra0CIw4"
    )
    static let ecBPoint = (
        x: "gz2vKMpvIPsOmuRpX1UwZ6m_cVeStsi73wrgxNlE_HQ",
        y: "aN_tSXNrAMoHRcFXvoECbpU7BVc6V4ZviZl5NLAUVE4"
    )
    static let p384Point = (
        x: "HPBeF5d2Xi-ypNVbbbJ1BMTNTbn8EZH3KqEwip3bbVSHnAevPaoR_U3N3VJkB5yO",
        y: "9zSJX8A4wJjRrI46RA5QbbDvEjPlch-yR6LsBRI_odyu9KAxYF09V0jXJMvY8wmY"
    )

    static func rsaKey(_ modulus: String, kid: String? = nil, more: String = "") -> String {
        #"{"kty":"RSA","n":"\#(modulus)","e":"AQAB"\#(name(kid))\#(more)}"#
    }

    static func ecKey(_ point: (x: String, y: String), kid: String? = nil, more: String = "", curve: String = "P-256")
        -> String
    {
        #"{"kty":"EC","crv":"\#(curve)","x":"\#(point.x)","y":"\#(point.y)"\#(name(kid))\#(more)}"#
    }

    private static func name(_ kid: String?) -> String {
        kid.map { #","kid":"\#($0)""# } ?? ""
    }

    static func jwks(_ keys: String...) -> [UInt8] {
        Array(#"{"keys":[\#(keys.joined(separator: ","))]}"#.utf8)
    }
}
