// The types of the core that an application with a server names. Nothing else of these modules enters the importing file's namespace.
@_exported public import enum RealtimeCore.BufferPolicy
@_exported public import struct RealtimeCore.CloseCode
@_exported public import enum RealtimeCore.CloseReason
@_exported public import enum RealtimeCore.EndReason
@_exported public import struct RealtimeCore.EventSequence
@_exported public import class RealtimeCore.InMemoryListener
@_exported public import class RealtimeCore.InMemoryNetwork
@_exported public import struct RealtimeCore.ListenerAddress
@_exported public import protocol RealtimeCore.ListenerHandler
@_exported public import class RealtimeCore.ListenerRouter
@_exported public import struct RealtimeCore.LogSink
@_exported public import struct RealtimeCore.TransportError
@_exported public import struct RealtimeCore.TransportMessage
@_exported public import enum RealtimeCoding.JSONValue
@_exported public import struct SignalRWire.HubTransportKinds
