extension SHA1 {
    package static func hash(_ bytes: [UInt8]) -> [UInt8] {
        var hash = SHA1()
        hash.update(bytes)
        return hash.finalize()
    }

    package mutating func update(_ bytes: [UInt8]) { bytes.withUnsafeBytes { self.update($0) } }
}

extension SHA256 {
    package static func hash(_ bytes: [UInt8]) -> [UInt8] {
        var hash = SHA256()
        hash.update(bytes)
        return hash.finalize()
    }

    package mutating func update(_ bytes: [UInt8]) { bytes.withUnsafeBytes { self.update($0) } }
}

extension MD5 {
    package static func hash(_ bytes: [UInt8]) -> [UInt8] {
        var hash = MD5()
        hash.update(bytes)
        return hash.finalize()
    }

    package mutating func update(_ bytes: [UInt8]) { bytes.withUnsafeBytes { self.update($0) } }
}
