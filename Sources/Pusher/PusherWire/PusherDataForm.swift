/// The form in which a server sends the data of an event.
///
/// The Pusher service sends most data as a string that contains JSON. Other servers send some of it as JSON itself, or leave it out.
public enum PusherDataForm: Sendable, Hashable {
    /// A string that contains JSON: `"data":"{\"on\":true}"`.
    case string
    /// JSON: `"data":{"on":true}`.
    case json
    /// No data: the event has no member `data`.
    case omitted
}
