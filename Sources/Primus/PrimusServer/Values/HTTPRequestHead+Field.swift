import RealtimeCore
import RealtimeEncoding

extension HTTPRequestHead {
    /// The value of a field in the query.
    func field(_ name: String) -> String? {
        (PercentEncoding.fields(self.query) ?? []).first { $0.name.utf8.elementsEqual(name.utf8) }?.value
    }
}
