import CCurl

/// One transfer of libcurl's easy interface.
final class CurlTransfer {
    /// libcurl wants this called once, before anything else.
    private static let isReady = daybook_curl_global_init() == CURLE_OK

    private let limits: FetchLimits
    private let isCancelled: () -> Bool
    private var body: [UInt8] = []
    private var isTooLong = false

    init(limits: FetchLimits, isCancelled: @escaping () -> Bool) {
        self.limits = limits
        self.isCancelled = isCancelled
    }

    /// Gets, or posts where there is a form.
    func run(
        _ url: FetchURL,
        form: String? = nil,
        certificates: String?,
        proxy: FetchProxy?
    ) throws(FetchFailure) -> [UInt8] {
        guard Self.isReady, let handle = curl_easy_init() else {
            throw FetchFailure("libcurl does not start: check the package libcurl4")
        }
        defer { curl_easy_cleanup(handle) }
        let headers = curl_slist_append(nil, "Accept: application/json")
        defer { curl_slist_free_all(headers) }
        guard configure(handle, url, certificates, proxy), configure(handle, form),
            daybook_curl_set_list(handle, CURLOPT_HTTPHEADER, headers) == CURLE_OK
        else { throw FetchFailure("libcurl refuses its options: check the package libcurl4 (7.85 or later)") }
        // The callbacks run inside this call alone, while `self` lives.
        let code = curl_easy_perform(handle)
        guard !isTooLong else { throw FetchFailure("the document is longer than \(limits.bodyBytes) bytes") }
        guard code == CURLE_OK else {
            // A fixed text of libcurl's for each code.
            throw FetchFailure(String(cString: curl_easy_strerror(code)))
        }
        let status = daybook_curl_status(handle)
        guard status == 200 else { throw FetchFailure("the server answered with status \(status)", status: status) }
        return body
    }

    private func configure(_ handle: UnsafeMutableRawPointer, _ form: String?) -> Bool {
        guard let form else { return true }
        return daybook_curl_set_long(handle, CURLOPT_FOLLOWLOCATION, 0) == CURLE_OK
            && daybook_curl_set_long(handle, CURLOPT_POSTFIELDSIZE, form.utf8.count) == CURLE_OK
            && daybook_curl_set_text(handle, CURLOPT_COPYPOSTFIELDS, form) == CURLE_OK
    }

    private func configure(
        _ handle: UnsafeMutableRawPointer,
        _ url: FetchURL,
        _ certificates: String?,
        _ proxy: FetchProxy?
    ) -> Bool {
        var numbers: [(CURLoption, Int)] = [
            (CURLOPT_NOSIGNAL, 1),
            (CURLOPT_CONNECTTIMEOUT_MS, limits.connectMilliseconds),
            (CURLOPT_TIMEOUT_MS, limits.totalMilliseconds),
            (CURLOPT_SSL_VERIFYPEER, 1),
            (CURLOPT_SSL_VERIFYHOST, 2),
            (CURLOPT_FOLLOWLOCATION, url.isPlain ? 0 : 1),
            (CURLOPT_MAXREDIRS, 3),
            (CURLOPT_MAXFILESIZE, limits.bodyBytes),
        ]
        numbers.append((CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2)))
        var texts: [(CURLoption, String)] = [
            (CURLOPT_URL, url.text),
            (CURLOPT_PROTOCOLS_STR, url.isPlain ? "http" : "https"),
            (CURLOPT_REDIR_PROTOCOLS_STR, "https"),
            (CURLOPT_USERAGENT, "daybook"),
        ]
        if let certificates { texts.append((CURLOPT_CAINFO, certificates)) }
        if let proxy {
            texts.append((CURLOPT_PROXY, proxy.address))
            if let user = proxy.user { texts.append((CURLOPT_PROXYUSERNAME, user)) }
            if let password = proxy.password { texts.append((CURLOPT_PROXYPASSWORD, password)) }
        }
        // What is on this machine needs no proxy.
        if url.isPlain { texts.append((CURLOPT_PROXY, "")) }
        return numbers.allSatisfy { daybook_curl_set_long(handle, $0, $1) == CURLE_OK }
            && texts.allSatisfy { daybook_curl_set_text(handle, $0, $1) == CURLE_OK }
            && daybook_curl_set_callbacks(
                handle,
                receiveBytes,
                askWhetherCancelled,
                Unmanaged.passUnretained(self).toOpaque()
            ) == CURLE_OK
    }

    fileprivate func receive(_ bytes: UnsafeRawBufferPointer) -> Int {
        guard body.count + bytes.count <= limits.bodyBytes else {
            isTooLong = true
            return 0
        }
        body.append(contentsOf: bytes)
        return bytes.count
    }

    fileprivate var mustStop: Bool { isCancelled() }
}

private func receiveBytes(
    _ bytes: UnsafeMutablePointer<CChar>?,
    _ size: Int,
    _ count: Int,
    _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let context else { return 0 }
    let transfer = Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
    // `size` is always 1.
    return transfer.receive(UnsafeRawBufferPointer(start: bytes, count: count))
}

private func askWhetherCancelled(_ context: UnsafeMutableRawPointer?, _: Int, _: Int, _: Int, _: Int) -> Int32 {
    guard let context else { return 1 }
    return Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue().mustStop ? 1 : 0
}
