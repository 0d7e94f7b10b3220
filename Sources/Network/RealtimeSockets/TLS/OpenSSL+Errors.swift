/// What OpenSSL says went wrong.
struct OpenSSLReason {
    /// SSL_R_…, when libssl itself says it; otherwise 0.
    var number: UInt
    /// OpenSSL's words.
    var words: String
    /// It repeats the operating system's error, as 3.2 and later do for a socket's.
    var isOfSystem: Bool
}

extension OpenSSL {
    /// OpenSSL keeps a list of errors for each thread, and what another caller left there would be taken for ours.
    @inline(__always)
    func forgetErrors() {
        if self.functions.ERR_peek_error() != 0 { self.functions.ERR_clear_error() }
    }

    /// Takes this thread's errors and returns the oldest: those after it are consequences.
    func takeReason() -> OpenSSLReason? {
        let code = self.functions.ERR_peek_error()
        guard code != 0 else { return nil }
        defer { self.functions.ERR_clear_error() }
        let words = self.functions.ERR_reason_error_string(code).map { String(cString: $0) }
        return OpenSSLReason(
            number: self.library(of: code) == 20 ? code & 0xfff : 0, words: words ?? "OpenSSL error 0x\(String(code, radix: 16))",
            isOfSystem: code & 0x8000_0000 != 0 && self.isVersion3)
    }

    /// Whether reading PEM stopped since there was no more: PEM_R_NO_START_LINE.
    var endedForWantOfPEM: Bool {
        let code = self.functions.ERR_peek_error()
        return self.library(of: code) == 9 && code & 0xfff == 108
    }

    /// 3.0 moved the library by one bit.
    private func library(of code: UInt) -> UInt {
        (self.isVersion3 ? code >> 23 : code >> 24) & 0xff
    }

    private var isVersion3: Bool { self.functions.OpenSSL_version_num() >= 0x3000_0000 }
}
