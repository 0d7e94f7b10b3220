import RealtimeSystem

/// Descriptions of certificates for error messages. Names are chosen by the issuer of a certificate, so characters that could disrupt
/// a log are escaped.
extension OpenSSL {
    func subject(of certificate: OpaquePointer) -> String {
        self.text(self.functions.X509_get_subject_name(certificate))
    }

    func issuer(of certificate: OpaquePointer) -> String {
        self.text(self.functions.X509_get_issuer_name(certificate))
    }

    private func text(_ name: OpaquePointer?) -> String {
        guard let name, let bio = self.functions.BIO_new(self.functions.BIO_s_mem()) else { return "unknown" }
        defer { _ = self.functions.BIO_free(bio) }
        guard self.functions.X509_NAME_print_ex(bio, name, 0, OpenSSLConstant.nameOnOneLine) >= 0 else { return "unknown" }
        var start: UnsafePointer<UInt8>?
        let count = withUnsafeMutablePointer(to: &start) { self.functions.BIO_ctrl(bio, OpenSSLConstant.BIO.controlInfo, 0, $0) }
        guard let start, count > 0 else { return "no name" }
        let text = String(decoding: UnsafeBufferPointer(start: start, count: min(count, 512)), as: UTF8.self)
        return count > 512 ? text + "…" : text
    }

    /// The host names and IP addresses in the subject alternative names.
    func hosts(of certificate: OpaquePointer) -> [String] {
        guard let list = self.functions.X509_get_ext_d2i(certificate, OpenSSLConstant.subjectAlternativeName, nil, nil) else { return [] }
        defer { self.functions.GENERAL_NAMES_free(list) }
        return (0..<max(0, self.functions.OPENSSL_sk_num(list))).compactMap { index in
            var kind: Int32 = -1
            guard let entry = self.functions.OPENSSL_sk_value(list, index),
                let value = self.functions.GENERAL_NAME_get0_value(entry, &kind),
                // Names of other kinds are not strings.
                kind == OpenSSLConstant.nameIsDNS || kind == OpenSSLConstant.nameIsAddress,
                let start = self.functions.ASN1_STRING_get0_data(value)
            else { return nil }
            let bytes = UnsafeBufferPointer(start: start, count: Int(self.functions.ASN1_STRING_length(value)))
            return kind == OpenSSLConstant.nameIsDNS ? printable(bytes) : address(bytes)
        }
    }

    /// The start of the validity period.
    func start(of certificate: OpaquePointer) -> String {
        self.text(time: self.functions.X509_get0_notBefore(certificate))
    }

    /// The end of the validity period.
    func end(of certificate: OpaquePointer) -> String {
        self.text(time: self.functions.X509_get0_notAfter(certificate))
    }

    private func text(time: OpaquePointer?) -> String {
        var parts = tm()
        guard let time, self.functions.ASN1_TIME_to_tm(time, &parts) == 1 else { return "an invalid date" }
        func padded(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let day = "\(parts.tm_year + 1900)-\(padded(parts.tm_mon + 1))-\(padded(parts.tm_mday))"
        return "\(day) \(padded(parts.tm_hour)):\(padded(parts.tm_min)):\(padded(parts.tm_sec)) UTC"
    }
}

private func printable(_ bytes: UnsafeBufferPointer<UInt8>) -> String {
    String(decoding: bytes.prefix(255).map { (0x21...0x7e).contains($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
}

private func address(_ bytes: UnsafeBufferPointer<UInt8>) -> String? {
    guard bytes.count == 4 || bytes.count == 16 else { return nil }
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
        inet_ntop(bytes.count == 4 ? AF_INET : AF_INET6, bytes.baseAddress!, text.baseAddress!, 64).map { String(cString: $0) }
    }
}
