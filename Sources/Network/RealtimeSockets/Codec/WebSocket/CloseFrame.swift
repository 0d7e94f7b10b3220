package import RealtimeCore

extension CloseCode {
    /// Whether a close frame may carry it (RFC 6455 section 7.4 and the registry it set up): 1004, 1005, 1006 and 1015
    /// are reserved, the rest below 3000 is unassigned, and above 4999 there is nothing.
    package var mayBeSent: Bool {
        switch self.rawValue {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }
}

extension FrameDecoder {
    /// The payload of a close frame (RFC 6455 section 5.5.1).
    static func readClose(_ payload: [UInt8]) throws(FrameError) -> (CloseCode, String) {
        if payload.isEmpty { return (.noStatus, "") }
        guard payload.count >= 2 else { throw .violation("The peer sent a close frame with half a code.") }
        let code = CloseCode(rawValue: UInt16(payload[0]) << 8 | UInt16(payload[1]))
        guard code.mayBeSent else { throw .violation("The peer sent a close frame with the code \(code), which may not be sent.") }
        let reason = payload.withUnsafeBytes { bytes -> String? in
            let words = UnsafeRawBufferPointer(rebasing: bytes[2...])
            return UTF8Validator.isValid(words) ? String(decoding: words, as: UTF8.self) : nil
        }
        guard let reason else { throw FrameError(.invalidPayload, "The peer sent a close frame whose reason is not UTF-8.") }
        return (code, reason)
    }
}
