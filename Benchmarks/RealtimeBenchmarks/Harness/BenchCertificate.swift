import Processes
import RealtimeSystem

/// A temporary self-signed certificate, created with the `openssl` command.
struct BenchCertificate {
    private let folder: String

    /// The options of `realtime bench-load` that select this certificate.
    var arguments: [String] { ["--certificate", "\(self.folder)/certificate.pem", "--private-key", "\(self.folder)/key.pem"] }

    /// Creates a certificate, or returns `nil` if the command does not exist or fails.
    static func make() -> BenchCertificate? {
        var template = Array("/tmp/realtime-bench-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { return nil }
        let certificate = BenchCertificate(folder: template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) })
        let command = [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout",
            "\(certificate.folder)/key.pem", "-out", "\(certificate.folder)/certificate.pem",
        ]
        guard let process = try? ChildProcess(command, errors: .discarded) else { return nil }
        while process.readLine() != nil {}
        process.end()
        guard access("\(certificate.folder)/key.pem", R_OK) == 0, access("\(certificate.folder)/certificate.pem", R_OK) == 0 else {
            certificate.remove()
            return nil
        }
        return certificate
    }

    /// Deletes the files.
    func remove() {
        unlink("\(self.folder)/key.pem")
        unlink("\(self.folder)/certificate.pem")
        rmdir(self.folder)
    }
}
