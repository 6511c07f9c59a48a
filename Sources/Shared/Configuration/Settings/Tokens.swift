extension Settings {
    /// How the tokens of requests are checked (and minted, by `daybook token`).
    public enum Tokens {
        public static let secret = Setting(
            "DAYBOOK_JWT_HS256_SECRET",
            .secret(minimumBytes: 32),
            .derived("none; one source of keys is needed"),
            for: [.ingest, .tool],
            "The key that HS256 tokens are signed with, taken as the bytes that it is written in. A file is read anew "
                + "when it changes."
        )
        public static let previousSecret = Setting(
            "DAYBOOK_JWT_HS256_PREVIOUS_SECRET",
            .secret(minimumBytes: 32),
            .optional,
            for: [.ingest],
            "A second key of HS256 that is accepted too, while the first is rotated."
        )
        public static let pemFiles = Setting(
            "DAYBOOK_JWT_PEM_FILES",
            .paths(most: 16),
            .optional,
            for: [.ingest],
            "Files with public keys or certificates (RSA for RS256, P-256 for ES256), read anew when they change."
        )
        public static let jwksFile = Setting(
            "DAYBOOK_JWT_JWKS_FILE",
            .text("a path", longest: 4096),
            .optional,
            for: [.ingest],
            "A file with a JSON Web Key Set, read anew when it changes."
        )
        public static let jwksURL = Setting(
            "DAYBOOK_JWT_JWKS_URL",
            .safeURL,
            .optional,
            for: [.ingest],
            "Where a JSON Web Key Set is fetched; the keys fetched last stay while it can't be."
        )
        public static let jwksRefresh = Setting(
            "DAYBOOK_JWT_JWKS_REFRESH_SECONDS",
            .integer(10...86_400, "s"),
            .defaults(to: "300"),
            for: [.ingest],
            "How often the JWKS is fetched; a token with an unknown key has it fetched sooner, at most every 30 s."
        )
        public static let jwksAuthorities = Setting(
            "DAYBOOK_JWT_JWKS_CA_FILE",
            .text("a path", longest: 4096),
            .derived("the system's authorities"),
            for: [.ingest],
            "A file with the certificates (PEM) of the authorities that the JWKS server's certificate is held against."
        )
        public static let issuer = Setting(
            "DAYBOOK_JWT_ISSUER",
            .text("the issuer", longest: 512),
            .optional,
            for: [.ingest, .tool],
            "If set, a token's `iss` must be equal to it."
        )
        public static let audience = Setting(
            "DAYBOOK_JWT_AUDIENCE",
            .text("the audience", longest: 512),
            .optional,
            for: [.ingest, .tool],
            "If set, a token's `aud` must be or contain it."
        )
        public static let leeway = Setting(
            "DAYBOOK_JWT_LEEWAY_SECONDS",
            .integer(0...300, "s"),
            .defaults(to: "30"),
            for: [.ingest],
            "How far the clock of the token's maker may be off when `exp` and `nbf` are checked."
        )
        public static let remembered = Setting(
            "DAYBOOK_JWT_CACHE_TOKENS",
            .integer(1...1_000_000),
            .defaults(to: "4096"),
            for: [.ingest],
            "How many verified tokens each event loop remembers, so that their signatures are not checked again; a "
                + "token takes its length and some 100 bytes."
        )

        static let all = [
            secret.description, previousSecret.description, pemFiles.description, jwksFile.description,
            jwksURL.description, jwksRefresh.description, jwksAuthorities.description, issuer.description,
            audience.description, leeway.description, remembered.description,
        ]
    }
}
