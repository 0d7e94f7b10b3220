/// An event of a plugin, as a session delivers it.
package enum PrimusPluginEvent: Sendable {
    var size: Int { 0 }
}
