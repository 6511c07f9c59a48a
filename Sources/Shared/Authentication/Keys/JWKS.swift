import JSON

extension KeySet {
    /// The keys of a JSON Web Key Set (RFC 7517) that can verify our tokens. Others in it are passed over, as the RFC
    /// wants it: other types, curves, algorithms and uses, short and private ones.
    ///
    /// - Parameters:
    ///   - jwks: the document.
    ///   - allowsSecrets: takes keys of type `oct`; never for what anybody can fetch.
    /// - Throws: when it is no such document, or no key in it can be used.
    public init(jwks: [UInt8], allowsSecrets: Bool = false) throws(KeyFailure) {
        var keys: [VerificationKey] = []
        do {
            let parser = try JSONParser(maximumDepth: 8)
            let root = try jwks.withUnsafeBytes { bytes throws(JSONError) in try parser.parse(copying: bytes) }
            guard var list = try root.object?.member("keys")?.array else { throw KeyFailure(.brokenJWKS) }
            while let element = list.next() {
                guard let object = element.object else { throw KeyFailure(.brokenJWKS) }
                guard let key = try JSONWebKey(object).usable(allowsSecrets: allowsSecrets) else { continue }
                guard keys.count < Self.mostPerAlgorithm * 4 else { throw KeyFailure(.tooManyKeys) }
                keys.append(key)
            }
        } catch let error as KeyFailure {
            throw error
        } catch {
            throw KeyFailure(.brokenJWKS)
        }
        try self.init(keys)
    }
}

/// The members of one key that we read, each at most once.
private struct JSONWebKey {
    private let type: JSONText?
    private let id: JSONText?
    private let algorithm: JSONText?
    private let isForSignatures: Bool
    private let isPrivate: Bool
    private let object: JSONObject

    init(_ object: JSONObject) throws(JSONError) {
        self.object = object
        type = try object.member("kty")?.text
        id = try object.member("kid")?.text
        algorithm = try object.member("alg")?.text
        isPrivate = try object.member("d") != nil
        let use = try object.member("use")
        var isForSignatures = use.map { $0.text?.equals("sig") == true } ?? true
        if let operations = try object.member("key_ops") {
            var verifies = false
            if var list = operations.array {
                while let operation = list.next() { verifies = verifies || operation.text?.equals("verify") == true }
            }
            isForSignatures = isForSignatures && verifies
        }
        self.isForSignatures = isForSignatures
    }

    /// Nil for one that is not for us.
    func usable(allowsSecrets: Bool) throws(JSONError) -> VerificationKey? {
        // Whoever publishes a private key has lost it.
        guard isForSignatures, !isPrivate, let type, (id?.count ?? 0) <= TokenVerifier.longestKeyID else { return nil }
        guard let material = try material(type, allowsSecrets: allowsSecrets) else { return nil }
        let key = VerificationKey(material: material, id: id.flatMap { $0.isEmpty ? nil : Array($0) })
        if let algorithm, !algorithm.elementsEqual(key.algorithm.rawValue.utf8) { return nil }
        return key
    }

    private func material(_ type: JSONText, allowsSecrets: Bool) throws(JSONError) -> VerificationKey.Material? {
        if type.equals("RSA") {
            guard let modulus = try bytes("n"), let exponent = try bytes("e") else { return nil }
            return (try? PublicKey.rsa(modulus: modulus, exponent: exponent)).map { .publicKey($0) }
        }
        if type.equals("EC") {
            guard try object.member("crv")?.text?.equals("P-256") == true, let x = try bytes("x"),
                let y = try bytes("y")
            else { return nil }
            return (try? PublicKey.p256(x: x, y: y)).map { .publicKey($0) }
        }
        if type.equals("oct"), allowsSecrets {
            guard let secret = try bytes("k"), secret.count >= KeySet.shortestSecretBytes else { return nil }
            return .secret(secret)
        }
        return nil
    }

    private func bytes(_ name: StaticString) throws(JSONError) -> [UInt8]? {
        guard let text = try object.member(name)?.text, text.count <= 2048 else { return nil }
        var bytes: [UInt8] = []
        return Base64URL.decode(text, into: &bytes) ? bytes : nil
    }
}
