import RealtimeCoding
package import RealtimeCore

/// Frames of cache channels, subscription counts and users.
extension PusherFrames {
    // MARK: Client to server

    /// Returns a request to sign in. `userData` is sent byte for byte as authorized, because the signature covers it.
    package static func signIn(auth: String, userData: String) -> TransportMessage {
        self.nested(EventName.signIn, as: .json) { data in
            data.key("auth")
            data.value(auth)
            data.key("user_data")
            data.value(userData)
        }
    }

    // MARK: Server to client

    package static func cacheMiss(_ channel: String, as form: PusherDataForm = .string) -> TransportMessage {
        self.nested(EventName.cacheMiss, channel: channel, as: form) { _ in }
    }

    package static func subscriptionCount(_ channel: String, _ count: Int) -> TransportMessage {
        self.nested(EventName.subscriptionCount, channel: channel) { data in
            data.key("subscription_count")
            data.value(count)
        }
    }

    /// Returns the confirmation of a sign-in.
    ///
    /// - Parameter auth: The signature of the request, from a server that repeats it.
    package static func signInSucceeded(userData: String, auth: String? = nil, as form: PusherDataForm = .json) -> TransportMessage {
        self.nested(EventName.signInSucceeded, as: form) { data in
            if let auth {
                data.key("auth")
                data.value(auth)
            }
            data.key("user_data")
            data.value(userData)
        }
    }

    /// Returns one event about the users of a watchlist, in the service's form.
    ///
    /// - Parameter changes: Names of events, `online` and `offline`, with the IDs of users.
    package static func watchlistEvents(_ changes: [(name: String, userIDs: [String])]) -> TransportMessage {
        self.nested(EventName.watchlistEvents) { data in
            data.key("events")
            data.beginArray()
            for (name, userIDs) in changes {
                data.beginObject()
                data.key("name")
                data.value(name)
                self.append(userIDs, to: &data)
                data.endObject()
            }
            data.endArray()
        }
    }

    /// Returns an event about some users of a watchlist, in the form of sockudo.
    ///
    /// - Parameter name: `online` or `offline`.
    package static func watchlistEvent(_ name: String, _ userIDs: [String]) -> TransportMessage {
        self.nested(name, as: .json) { self.append(userIDs, to: &$0) }
    }

    private static func append(_ userIDs: [String], to data: inout JSONWriter) {
        data.key("user_ids")
        data.beginArray()
        for id in userIDs { data.value(id) }
        data.endArray()
    }

    /// Returns an error about a subscription, as soketi sends it.
    package static func subscriptionError(_ channel: String, type: String, status: Int, _ message: String) -> TransportMessage {
        self.nested(EventName.subscriptionError, channel: channel, as: .json) { data in
            data.key("type")
            data.value(type)
            data.key("error")
            data.value(message)
            data.key("status")
            data.value(status)
        }
    }

    /// Returns an error about a subscription, as pusher-fake sends it.
    package static func internalSubscriptionError(_ channel: String) -> TransportMessage {
        self.nested(EventName.internalSubscriptionError, channel: channel, as: .json) { _ in }
    }

    /// Returns an event of a client, whose data is JSON as the client sent it.
    ///
    /// - Parameter data: The data, or `nil` if the client sent none.
    package static func clientEvent(
        _ name: String, channel: String, json: [UInt8]?, userID: String?, hasNumericIDs: Bool
    ) -> TransportMessage {
        self.frame(name, channel: channel) { frame in
            if let json {
                frame.key("data")
                frame.raw(json)
            }
            if let userID {
                frame.key("user_id")
                self.append(userID: userID, isNumeric: hasNumericIDs, to: &frame)
            }
        }
    }
}
