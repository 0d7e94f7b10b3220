// Re-exports the types that programs need to name when they use a client.
@_exported public import struct PrimusWire.PrimusDate
@_exported public import protocol PrimusWire.PrimusParser
@_exported public import struct PrimusWire.PrimusParserError
@_exported public import enum PrimusWire.PrimusParserKind
@_exported public import struct PrimusWire.PrimusSpec
@_exported public import enum PrimusWire.PrimusTransformerKind
@_exported public import enum PrimusWire.PrimusValue
@_exported public import struct RealtimeCore.Backoff
@_exported public import enum RealtimeCore.BufferPolicy
@_exported public import struct RealtimeCore.CloseCode
@_exported public import enum RealtimeCore.CloseReason
@_exported public import struct RealtimeCore.Counters
@_exported public import enum RealtimeCore.EndReason
@_exported public import struct RealtimeCore.Endpoint
@_exported public import struct RealtimeCore.EventSequence
@_exported public import struct RealtimeCore.HTTPHeaders
@_exported public import struct RealtimeCore.LogSink
@_exported public import class RealtimeCore.NetworkPathMonitor
@_exported public import struct RealtimeCore.TransportError
@_exported public import struct RealtimeCore.Transports
@_exported public import struct RealtimeCore.TransportMessage
// For `Transports.standard`.
@_exported public import RealtimeTransports
