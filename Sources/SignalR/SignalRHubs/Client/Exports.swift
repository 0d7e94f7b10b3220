// Re-exports the types that programs need to name when they use a client.
@_exported public import struct RealtimeCore.Backoff
@_exported public import enum RealtimeCore.BufferPolicy
@_exported public import struct RealtimeCore.CloseCode
@_exported public import enum RealtimeCore.CloseReason
@_exported public import struct RealtimeCore.Counters
@_exported public import enum RealtimeCore.EndReason
@_exported public import struct RealtimeCore.Endpoint
@_exported public import struct RealtimeCore.EventSequence
@_exported public import struct RealtimeCore.LogSink
@_exported public import class RealtimeCore.NetworkPathMonitor
@_exported public import struct RealtimeCore.TransportError
@_exported public import struct RealtimeCore.Transports
@_exported public import struct RealtimeCoding.JSONNumber
@_exported public import struct RealtimeCoding.JSONObject
@_exported public import enum RealtimeCoding.JSONValue
@_exported public import struct RealtimeCoding.JSONValueDecoder
@_exported public import struct RealtimeCoding.JSONValueEncoder
@_exported public import struct RealtimeCoding.MessagePackDecoder
@_exported public import struct RealtimeCoding.MessagePackEncoder
@_exported public import enum RealtimeCoding.MessagePackValue
@_exported public import enum SignalRWire.HubTransport
@_exported public import struct SignalRWire.HubTransportKinds
// For `Transports.standard`.
@_exported public import RealtimeTransports
