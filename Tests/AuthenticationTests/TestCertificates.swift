/// Certificates that no machine trusts, for a server of the tests. Made with `openssl ca`.
enum TestCertificates {
    /// Signed the certificates below.
    static let authority = """
        -----BEGIN CERTIFICATE-----
        MIIBZjCCAQygAwIBAgIBATAKBggqhkjOPQQDAjAbMRkwFwYDVQQDDBBkYXlib29r
        IHRlc3RzIGNhMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAbMRkw
        FwYDVQQDDBBkYXlib29rIHRlc3RzIGNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD
        QgAEGAf04cMWhGagkzMTBUaHahQZuxjAGex3gWvSNKhsBAKt282DDsVYzxqzCJNi
        t/9QD11GJ+IKOlLoLJC1uxovEKM/MD0wDwYDVR0TAQH/BAUwAwEB/zALBgNVHQ8E
        BAMCAgQwHQYDVR0OBBYEFOyGPnaJkD8ty4VfAk/cH8TvUcr5MAoGCCqGSM49BAMC
        A0gAMEUCICniod1iurdhdOPrupOItIYlXe89++wWj713mdQm+dNCAiEA28QQdUSa
        xojkDAQO1hkb8OfQphP3qDEBSjOVCCTsN8Q=
        -----END CERTIFICATE-----
        """

    /// Signed none of them.
    static let otherAuthority = """
        -----BEGIN CERTIFICATE-----
        MIIBazCCARKgAwIBAgIBAjAKBggqhkjOPQQDAjAeMRwwGgYDVQQDDBNkYXlib29r
        IHRlc3RzIG90aGVyMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAe
        MRwwGgYDVQQDDBNkYXlib29rIHRlc3RzIG90aGVyMFkwEwYHKoZIzj0CAQYIKoZI
        zj0DAQcDQgAEMKW4pvCexuzIFNc5Us2Z/wUqpbtRzdMlb6Po1C7NpvR9DMc6KTSZ
        /JQUQDF+jDDN/ttBl6EuCoxXTgRjzj02SqM/MD0wDwYDVR0TAQH/BAUwAwEB/zAL
        BgNVHQ8EBAMCAgQwHQYDVR0OBBYEFKI27o0pQ/ycCp+rSy4Wj2OAbWp/MAoGCCqG
        SM49BAMCA0cAMEQCIDWfq8+1hxofrafYLp7GZzNLxCyx5M4LOFxjQsHPruv7AiBs
        XZr1eB01zegaWklnSANvfY0nfdQH3wqmLdo01wu5lA==
        -----END CERTIFICATE-----
        """

    /// For localhost and 127.0.0.1, until 2120.
    static let good = """
        -----BEGIN CERTIFICATE-----
        MIIBmTCCAT+gAwIBAgIBAzAKBggqhkjOPQQDAjAbMRkwFwYDVQQDDBBkYXlib29r
        IHRlc3RzIGNhMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAPMQ0w
        CwYDVQQDDARnb29kMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEDtX444bISeHT
        XrkHdP85Oc9aCifc/B/lEUOTMSWFCG4zVkH6lpGhBU09ooYGOMALZx8RIVdicm44
        yS4yDXIEtKN+MHwwGgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMAkGA1UdEwQC
        MAAwEwYDVR0lBAwwCgYIKwYBBQUHAwEwHQYDVR0OBBYEFDPO3tXVSr2e5jQud3EK
        1eVf4xwaMB8GA1UdIwQYMBaAFOyGPnaJkD8ty4VfAk/cH8TvUcr5MAoGCCqGSM49
        BAMCA0gAMEUCIQChhQBmx+HE8oVW9c7KghMlfG3Mxh72GNhUe2NBWoDzzwIgHAA7
        kPL0rVucoiPYFAvGlikBxhfxh4wHhTcQhaOwDaY=
        -----END CERTIFICATE-----
        """

    /// For `id.example`.
    static let elsewhere = """
        -----BEGIN CERTIFICATE-----
        MIIBmTCCAT+gAwIBAgIBBDAKBggqhkjOPQQDAjAbMRkwFwYDVQQDDBBkYXlib29r
        IHRlc3RzIGNhMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAUMRIw
        EAYDVQQDDAllbHNld2hlcmUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQO1fjj
        hshJ4dNeuQd0/zk5z1oKJ9z8H+URQ5MxJYUIbjNWQfqWkaEFTT2ihgY4wAtnHxEh
        V2JybjjJLjINcgS0o3kwdzAVBgNVHREEDjAMggppZC5leGFtcGxlMAkGA1UdEwQC
        MAAwEwYDVR0lBAwwCgYIKwYBBQUHAwEwHQYDVR0OBBYEFDPO3tXVSr2e5jQud3EK
        1eVf4xwaMB8GA1UdIwQYMBaAFOyGPnaJkD8ty4VfAk/cH8TvUcr5MAoGCCqGSM49
        BAMCA0gAMEUCIC4e7uhZocm1ojSvfAkTOU3XeDnizhVILSNTTxMx6iv5AiEA0zIA
        lRLwsXZI0/+mjszAsZiiYoYwRlo2tsi4owK1y/4=
        -----END CERTIFICATE-----
        """

    /// For localhost and 127.0.0.1, until 2021.
    static let expired = """
        -----BEGIN CERTIFICATE-----
        MIIBmTCCAUCgAwIBAgIBBTAKBggqhkjOPQQDAjAbMRkwFwYDVQQDDBBkYXlib29r
        IHRlc3RzIGNhMB4XDTIwMDEwMTAwMDAwMFoXDTIxMDEwMTAwMDAwMFowEjEQMA4G
        A1UEAwwHZXhwaXJlZDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABA7V+OOGyEnh
        0165B3T/OTnPWgon3Pwf5RFDkzElhQhuM1ZB+paRoQVNPaKGBjjAC2cfESFXYnJu
        OMkuMg1yBLSjfjB8MBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAJBgNVHRME
        AjAAMBMGA1UdJQQMMAoGCCsGAQUFBwMBMB0GA1UdDgQWBBQzzt7V1Uq9nuY0Lndx
        CtXlX+McGjAfBgNVHSMEGDAWgBTshj52iZA/LcuFXwJP3B/E71HK+TAKBggqhkjO
        PQQDAgNHADBEAiBu5hv2nIsyzQdmgithtzMxX1b+msYcGHIm83GnDKdSVwIgdfyP
        p/aJfi8flhtLUy5oaaqbArEWktlwqhJJSTUmFoc=
        -----END CERTIFICATE-----
        """

    /// Of all three; it opens nothing but these tests.
    static let privateKey = """
        -----BEGIN EC PRIVATE KEY-----
        MHcCAQEEIOAMPpvlBFgIu3WUnimarPcAYvJtP1GuRqChlgzegJmKoAoGCCqGSM49
        AwEHoUQDQgAEDtX444bISeHTXrkHdP85Oc9aCifc/B/lEUOTMSWFCG4zVkH6lpGh
        BU09ooYGOMALZx8RIVdicm44yS4yDXIEtA==
        -----END EC PRIVATE KEY-----
        """
}
