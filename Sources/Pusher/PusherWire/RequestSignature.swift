import RealtimeEncoding
import RealtimeCore
import RealtimeCrypto

/// How requests to the service's HTTP API are signed.
///
/// - Source: the section on authentication of the HTTP API's reference. What is signed are the method, the path as it
///   is sent and the query, its fields sorted by lower-cased name and not escaped; the body is in it by its MD5.
package enum RequestSignature {
    /// How far the clocks may be apart, in seconds.
    package static let tolerance: Int64 = 600

    /// The target with its signed query.
    package static func sign(method: String, path: String, body: [UInt8], key: String, secret: String, unixTime: Int64) -> String {
        var fields = [("auth_key", key), ("auth_timestamp", "\(unixTime)"), ("auth_version", "1.0")]
        if !body.isEmpty { fields.append(("body_md5", Hex.encode(MD5.hash(body)))) }
        fields.append(("auth_signature", self.signature(method, path, fields, secret)))
        return path + "?" + fields.map { "\($0.0)=\(PercentEncoding.form($0.1))" }.joined(separator: "&")
    }

    package enum Verdict: Equatable, Sendable {
        case accepted
        case refused(String)
    }

    package static func check(method: String, target: String, body: [UInt8], key: String, secret: String, unixTime: Int64) -> Verdict {
        let head = HTTPRequestHead(method: method, target: target)
        guard let fields = PercentEncoding.fields(head.query) else { return .refused("The query is not percent-encoded as it should be.") }
        func value(_ name: String) -> String? { fields.first { $0.name == name }?.value }
        guard value("auth_key") == key else { return .refused("There is no application with this auth_key.") }
        guard value("auth_version") == "1.0" else { return .refused("The auth_version has to be 1.0.") }
        guard let timestamp = value("auth_timestamp").flatMap(Int64.init) else {
            return .refused("The auth_timestamp is missing, or no number.")
        }
        guard timestamp >= unixTime - self.tolerance, timestamp <= unixTime + self.tolerance else {
            return .refused("The auth_timestamp is more than \(self.tolerance) seconds off; check the clocks.")
        }
        if !body.isEmpty || value("body_md5") != nil {
            guard value("body_md5") == Hex.encode(MD5.hash(body)) else { return .refused("The body_md5 is not that of the body.") }
        }
        guard let signature = value("auth_signature") else { return .refused("The auth_signature is missing.") }
        let signed = fields.filter { $0.name != "auth_signature" }.map { ($0.name, $0.value) }
        guard ChannelSignature.isEqual(signature, self.signature(method, String(head.path), signed, secret)) else {
            return .refused(
                "The auth_signature is not right; check the secret, and that the path and the query are signed as they are sent.")
        }
        return .accepted
    }

    private static func signature(_ method: String, _ path: String, _ fields: [(String, String)], _ secret: String) -> String {
        let query = fields.map { ($0.0.lowercased(), $0.1) }.sorted { $0.0 < $1.0 }.map { "\($0.0)=\($0.1)" }.joined(separator: "&")
        return ChannelSignature.hex(of: "\(method)\n\(path)\n\(query)", secret: secret)
    }
}
