import PusherSwift

// The snippets about the API of PusherSwift.

func pusherSwiftSnippet() -> Pusher {
    // snippet:pusherswift-overview
    let options = PusherClientOptions(host: .cluster("eu"))
    let pusher = Pusher(key: "APP_KEY", options: options)
    let myChannel = pusher.subscribe("my-channel")
    myChannel.bind(eventName: "new-price") { event in
        print(event.data ?? "")
    }
    pusher.connect()
    // end
    return pusher
}

func pusherSwiftListenerSnippet(_ pusher: Pusher) {
    // snippet:pusherswift-listeners
    pusher.connection.bind("state_change") { change in
        print("from \(change.previous!) to \(change.current!)")
    }
    pusher.connection.bind("error") { error in
        if error.data?.code == 4004 { print("too many connections") }
    }
    // end
}
