import RealtimeCore
import RealtimeEncoding

extension HTTPRequestHead {
    /// The value of a field in the query.
    func field(_ name: String) -> String? {
        PercentEncoding.value(of: name, in: self.query)
    }
}
