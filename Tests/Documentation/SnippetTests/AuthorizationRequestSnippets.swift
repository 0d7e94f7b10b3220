import PusherChannels
import RealtimeCore

func requestReference(_ configuration: inout PusherConfiguration, _ endpoint: Endpoint) {
    // snippet:authorizer-request
    configuration.authorizer = .request { request in
        let body = #"{"socket_id":"\#(request.socketID)","channel_name":"\#(request.channel)"}"#
        return HTTPRequest("POST", endpoint, headers: ["Content-Type": "application/json"], body: Array(body.utf8))
    }
    // end
}
