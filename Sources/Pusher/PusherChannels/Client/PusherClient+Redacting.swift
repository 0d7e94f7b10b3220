import RealtimeCore

extension PusherClient: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("configuration", self.configuration), ("state", self.state)] }
}

extension PusherChannel: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("name", self.name), ("state", self.state)] }
}
