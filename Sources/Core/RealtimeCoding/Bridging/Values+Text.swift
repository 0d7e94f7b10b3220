extension JSONObject: CustomStringConvertible {
    /// The object as compact JSON.
    public var description: String { JSONValue.object(self).description }
}

extension MessagePackValue: CustomStringConvertible {
    /// The value as compact JSON. Bytes are shown in Base64, timestamps in ISO 8601, and other extension values with their type and data.
    public var description: String { JSONValue(showing: self).description }
}

extension MessagePackValue.Member: CustomStringConvertible {
    /// The key and the value, as in JSON.
    public var description: String { "\(self.key):\(self.value)" }
}

extension MessagePackTimestamp: CustomStringConvertible {
    /// The time in ISO 8601, or the seconds since 1970 if it is outside of the years that have a form there.
    public var description: String { self.iso8601 ?? "\(self.seconds) s" }
}
