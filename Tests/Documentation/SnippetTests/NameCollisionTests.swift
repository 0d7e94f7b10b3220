import CommonNames
import PusherChannels
import PusherServer
import RealtimeTesting
import Testing

/// Checks that public names do not collide with common names of other packages. An ambiguous name does not compile.
@Suite struct NameCollisionTests {
    @Test func `common names of other packages are unambiguous next to an import of this package`() {
        let names: [Any.Type] = [
            ByteBuffer.self, (any Channel).self, (any ChannelHandler).self, (any EventLoop).self, (any EventLoopGroup).self,
            EventLoopFuture.self, EventLoopPromise.self, SocketAddress.self, TimeAmount.self, Scheduled.self, HTTPHeaders.self,
            HTTPRequestHead.self, HTTPResponseHead.self, HTTPMethod.self, HTTPVersion.self, HTTPResponseStatus.self,
            WebSocketFrame.self, WebSocketErrorCode.self, WebSocketOpcode.self, TLSConfiguration.self, TLSVersion.self,
            HTTPRequest.self, HTTPResponse.self, HTTPField.self, HTTPFields.self,
            Logger.self, (any LogHandler).self, LogLevel.self, Counter.self, Recorder.self, Timer.self, (any Service).self,
            Application.self, Authenticator.self, Authorizer.self, Client.self, Environment.self, Request.self,
            (any Responder).self, Response.self, Route.self, Router.self, WebSocket.self, WebSocketClient.self,
            ConnectionState.self, ConnectionID.self, Event.self, Listener.self, Lock.self, Member.self, Message.self,
            SubscriptionState.self,
        ]
        #expect(Set(names.map { "\($0)" }).count == names.count)
    }
}
