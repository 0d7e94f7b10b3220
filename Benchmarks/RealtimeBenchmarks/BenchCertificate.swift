internal import CommandLineSupport
internal import RealtimeSystem
internal import Processes

/// A certificate for one run, made by the openssl command.
struct BenchCertificate {
    let folder: String

    var arguments: [String] { ["--certificate", "\(self.folder)/certificate.pem", "--private-key", "\(self.folder)/key.pem"] }

    /// `nil` when there is no such command, or when it fails.
    static func make() -> BenchCertificate? {
        var template = Array("/tmp/realtime-bench-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { return nil }
        let certificate = BenchCertificate(folder: template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) })
        let words = [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout",
            "\(certificate.folder)/key.pem", "-out", "\(certificate.folder)/certificate.pem",
        ]
        guard let process = try? ChildProcess(words, errors: .discarded) else { return nil }
        while process.readLine() != nil {}
        process.end()
        guard access("\(certificate.folder)/key.pem", R_OK) == 0, access("\(certificate.folder)/certificate.pem", R_OK) == 0 else {
            certificate.remove()
            return nil
        }
        return certificate
    }

    func remove() {
        unlink("\(self.folder)/key.pem")
        unlink("\(self.folder)/certificate.pem")
        rmdir(self.folder)
    }
}
