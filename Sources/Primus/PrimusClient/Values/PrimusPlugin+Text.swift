extension PrimusStandardPlugin: CustomStringConvertible {
    /// The name of the plugin.
    public var description: String { self.name }
}

extension PrimusPluginHooks: CustomStringConvertible {
    /// The names of the hooks.
    public var description: String {
        let names: [(PrimusPluginHooks, String)] = [(.opened, "opened"), (.incoming, "incoming"), (.outgoing, "outgoing"), (.url, "url")]
        return names.filter { self.contains($0.0) }.map(\.1).joined(separator: ", ")
    }
}
