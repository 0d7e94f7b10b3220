// A user who turns on MemberImportVisibility needs the sequences' members from here.
@_exported public import RealtimeCore
@_exported public import enum PusherWire.ChannelKind
// For `Transports.standard`.
@_exported public import RealtimeTransports
