/// Keys made for these tests alone.
enum TestKeys {
    static let firstPrivate = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgEdR/FcvWnUBArmnx
        SGhP2jgxQZ2Lke6gr9vXjsJHNxOhRANCAARMfkaAc0qGIMlC/F5B/SJj5JsfZfp7
        qoGB46/oQk9XtRbvVxJQMDSKVcCQcZWRW2r7fXHfQ+qrXS3RX62tAiMO
        -----END PRIVATE KEY-----
        """
    static let secondPrivate = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgDYgg3MOqtimM8Ps5
        Xdli1Rz701um3zmsSiPDqE2b1A6hRANCAASDPa8oym8g+w6a5GlfVTBnqb9xV5K2
        yLvfCuDE2UT8dGjf7UlzawDKB0XBV76BAm6VOwVXOleGb4mZeTSwFFRO
        -----END PRIVATE KEY-----
        """
    static let first =
        #"{"keys":[{"kty":"EC","crv":"P-256","kid":"first","x":"TH5GgHNKhiDJQvxeQf0iY-SbH2X6e6qBgeOv6EJPV7U","y":"Fu9XElAwNIpVwJBxlZFbavt9cd9D6qtdLdFfra0CIw4"}]}"#
    static let second =
        #"{"keys":[{"kty":"EC","crv":"P-256","kid":"second","x":"gz2vKMpvIPsOmuRpX1UwZ6m_cVeStsi73wrgxNlE_HQ","y":"aN_tSXNrAMoHRcFXvoECbpU7BVc6V4ZviZl5NLAUVE4"}]}"#
}
