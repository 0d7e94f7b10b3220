public import RealtimeCore

/// A frame that a client sent or received, without its secrets; see ``PusherClient/frames(buffer:)``.
public typealias PusherFrameTrace = TracedFrame
