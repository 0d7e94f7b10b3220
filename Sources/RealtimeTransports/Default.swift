public import RealtimeCore
extension Transports { public static var standard: Transports { fatalError() } }
