import RealtimeCore

extension RandomSource {
    /// Returns 132 random bits as text that needs no percent-encoding.
    mutating func makeID() -> String {
        let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8.map { $0 }
        var bytes: [UInt8] = []
        while bytes.count < 22 {
            var number = self.next()
            for _ in 0..<min(10, 22 - bytes.count) {
                bytes.append(letters[Int(number & 63)])
                number >>= 6
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
