import Authentication
import Configuration
import HTTPClient
import Observability
import ServiceRuntime

extension TokenConfiguration {
    var policy: TokenPolicy {
        TokenPolicy(issuer: issuer, audience: audience, leewaySeconds: leewaySeconds)
    }

    var sources: KeySources {
        var sources = KeySources()
        for given in secrets {
            if let file = given.file {
                sources.secretFiles.append(file)
            } else {
                sources.secrets.append(Array(given.secret.reveal().utf8))
            }
        }
        sources.pemFiles = pemFiles
        sources.jwksFile = jwksFile
        sources.jwksURL = jwksURL
        sources.refreshSeconds = jwksRefreshSeconds
        return sources
    }
}

extension KeyKeeper {
    convenience init(
        _ configuration: TokenConfiguration,
        time: any TimeSource = SystemTime(),
        log: Log = .disabled,
        onUsable: @escaping @Sendable () -> Void = {}
    ) throws(KeyKeeper.Failure) {
        let fetcher = NetworkFetcher(client: HTTPFetcher(certificates: configuration.jwksAuthorities))
        try self.init(configuration.sources, fetcher: fetcher, time: time, log: log, onUsable: onUsable)
    }
}

/// Fetches a JWKS from the network.
struct NetworkFetcher: KeyFetcher {
    let client: HTTPFetcher

    func fetch(_ url: String, isCancelled: @escaping @Sendable () -> Bool) throws(KeyFetchFailure) -> [UInt8] {
        guard let url = FetchURL(url) else {
            throw KeyFetchFailure("the URL is not https://, nor http:// on this machine")
        }
        do throws(FetchFailure) {
            return try client.get(url, isCancelled: isCancelled)
        } catch {
            throw KeyFetchFailure(error.description)
        }
    }
}
