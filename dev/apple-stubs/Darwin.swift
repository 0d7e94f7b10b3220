// A stub of Apple's Darwin for type-checking: the declarations that this package uses and that Glibc lacks or declares differently, written
// from the system's headers. For everything else Glibc's declarations stand in, which POSIX makes similar enough.

@_exported import Glibc

public typealias os_unfair_lock = os_unfair_lock_s
public typealias os_unfair_lock_t = UnsafeMutablePointer<os_unfair_lock_s>

public struct os_unfair_lock_s {
    public init() {}
}

public func os_unfair_lock_lock(_ lock: os_unfair_lock_t) {}
public func os_unfair_lock_unlock(_ lock: os_unfair_lock_t) {}

public func clock_gettime_nsec_np(_ clock: clockid_t) -> UInt64 { 0 }
public var CLOCK_UPTIME_RAW: clockid_t { 8 }

// Threads: pthread_t is a pointer.
public struct _opaque_pthread_t {}
public typealias pthread_t = UnsafeMutablePointer<_opaque_pthread_t>
public func pthread_create(
    _ thread: UnsafeMutablePointer<pthread_t?>, _ attributes: UnsafePointer<pthread_attr_t>?,
    _ start: @convention(c) (UnsafeMutableRawPointer) -> UnsafeMutableRawPointer?, _ context: UnsafeMutableRawPointer?
) -> Int32 { 0 }
public func pthread_self() -> pthread_t { fatalError() }
public func pthread_equal(_ first: pthread_t?, _ second: pthread_t?) -> Int32 { 0 }
@discardableResult public func pthread_join(_ thread: pthread_t, _ value: UnsafeMutablePointer<UnsafeMutableRawPointer?>?) -> Int32 { 0 }
@discardableResult public func pthread_detach(_ thread: pthread_t) -> Int32 { 0 }
@discardableResult public func pthread_setname_np(_ name: UnsafePointer<CChar>) -> Int32 { 0 }

// Processes.
public var RLIMIT_NOFILE: Int32 { 8 }
public typealias posix_spawn_file_actions_t = UnsafeMutableRawPointer
public typealias posix_spawnattr_t = UnsafeMutableRawPointer
@discardableResult public func posix_spawn_file_actions_init(_ actions: UnsafeMutablePointer<posix_spawn_file_actions_t?>) -> Int32 { 0 }
@discardableResult public func posix_spawn_file_actions_destroy(_ actions: UnsafeMutablePointer<posix_spawn_file_actions_t?>) -> Int32 { 0 }
@discardableResult public func posix_spawn_file_actions_adddup2(
    _ actions: UnsafeMutablePointer<posix_spawn_file_actions_t?>, _ descriptor: Int32, _ newDescriptor: Int32
) -> Int32 { 0 }
@discardableResult public func posix_spawn_file_actions_addopen(
    _ actions: UnsafeMutablePointer<posix_spawn_file_actions_t?>, _ descriptor: Int32, _ path: UnsafePointer<CChar>, _ flags: Int32,
    _ mode: mode_t
) -> Int32 { 0 }
@discardableResult public func posix_spawn_file_actions_addinherit_np(
    _ actions: UnsafeMutablePointer<posix_spawn_file_actions_t?>, _ descriptor: Int32
) -> Int32 { 0 }
public var POSIX_SPAWN_SETSIGMASK: Int32 { 0x8 }
public var POSIX_SPAWN_CLOEXEC_DEFAULT: Int32 { 0x4000 }
@discardableResult public func posix_spawnattr_init(_ attributes: UnsafeMutablePointer<posix_spawnattr_t?>) -> Int32 { 0 }
@discardableResult public func posix_spawnattr_destroy(_ attributes: UnsafeMutablePointer<posix_spawnattr_t?>) -> Int32 { 0 }
@discardableResult public func posix_spawnattr_setsigmask(
    _ attributes: UnsafeMutablePointer<posix_spawnattr_t?>, _ signals: UnsafePointer<sigset_t>
) -> Int32 { 0 }
@discardableResult public func posix_spawnattr_setsigdefault(
    _ attributes: UnsafeMutablePointer<posix_spawnattr_t?>, _ signals: UnsafePointer<sigset_t>
) -> Int32 { 0 }
@discardableResult public func posix_spawnattr_setflags(_ attributes: UnsafeMutablePointer<posix_spawnattr_t?>, _ flags: Int16) -> Int32 {
    0
}
public func posix_spawnp(
    _ process: UnsafeMutablePointer<pid_t>?, _ file: UnsafePointer<CChar>, _ actions: UnsafePointer<posix_spawn_file_actions_t?>?,
    _ attributes: UnsafePointer<posix_spawnattr_t?>?, _ arguments: UnsafePointer<UnsafeMutablePointer<CChar>?>,
    _ environment: UnsafePointer<UnsafeMutablePointer<CChar>?>?
) -> Int32 { 0 }

// Sockets: the types of sockets are plain integers.
public var SOCK_STREAM: Int32 { 1 }
public var SO_NOSIGPIPE: Int32 { 0x1022 }
public var SHUT_WR: Int32 { 1 }
public var IPPROTO_TCP: Int32 { 6 }
public var IPPROTO_IPV6: Int32 { 41 }

// Socket addresses start with their length.
public typealias sa_family_t = UInt8

public struct sockaddr {
    public var sa_len: UInt8 = 0
    public var sa_family: sa_family_t = 0
    public init() {}
}

public struct sockaddr_in {
    public var sin_len: UInt8 = 0
    public var sin_family: sa_family_t = 0
    public var sin_port: in_port_t = 0
    public var sin_addr = in_addr()
    public init() {}
}

public struct sockaddr_in6 {
    public var sin6_len: UInt8 = 0
    public var sin6_family: sa_family_t = 0
    public var sin6_port: in_port_t = 0
    public var sin6_flowinfo: UInt32 = 0
    public var sin6_addr = in6_addr()
    public var sin6_scope_id: UInt32 = 0
    public init() {}
}

public struct sockaddr_storage {
    public var ss_len: UInt8 = 0
    public var ss_family: sa_family_t = 0
    public init() {}
}

public struct addrinfo {
    public var ai_flags: Int32 = 0
    public var ai_family: Int32 = 0
    public var ai_socktype: Int32 = 0
    public var ai_protocol: Int32 = 0
    public var ai_addrlen: socklen_t = 0
    public var ai_canonname: UnsafeMutablePointer<CChar>?
    public var ai_addr: UnsafeMutablePointer<sockaddr>!
    public var ai_next: UnsafeMutablePointer<addrinfo>?
    public init() {}
}

public func getaddrinfo(
    _ host: UnsafePointer<CChar>?, _ service: UnsafePointer<CChar>?, _ hints: UnsafePointer<addrinfo>?,
    _ result: UnsafeMutablePointer<UnsafeMutablePointer<addrinfo>?>?
) -> Int32 { 0 }
public func freeaddrinfo(_ list: UnsafeMutablePointer<addrinfo>?) {}
@discardableResult public func connect(_ socket: Int32, _ address: UnsafePointer<sockaddr>?, _ length: socklen_t) -> Int32 { 0 }
@discardableResult public func bind(_ socket: Int32, _ address: UnsafePointer<sockaddr>?, _ length: socklen_t) -> Int32 { 0 }
@discardableResult public func getsockname(
    _ socket: Int32, _ address: UnsafeMutablePointer<sockaddr>?, _ length: UnsafeMutablePointer<socklen_t>?
) -> Int32 { 0 }
@discardableResult public func getpeername(
    _ socket: Int32, _ address: UnsafeMutablePointer<sockaddr>?, _ length: UnsafeMutablePointer<socklen_t>?
) -> Int32 { 0 }
@discardableResult public func getnameinfo(
    _ address: UnsafePointer<sockaddr>?, _ length: socklen_t, _ host: UnsafeMutablePointer<CChar>?, _ hostLength: socklen_t,
    _ service: UnsafeMutablePointer<CChar>?, _ serviceLength: socklen_t, _ flags: Int32
) -> Int32 { 0 }

// kqueue.
public struct kevent64_s {
    public var ident: UInt64 = 0
    public var filter: Int16 = 0
    public var flags: UInt16 = 0
    public var fflags: UInt32 = 0
    public var data: Int64 = 0
    public var udata: UInt64 = 0
    public var ext: (UInt64, UInt64) = (0, 0)
    public init() {}
}

public func kqueue() -> Int32 { 0 }
public func kevent64(
    _ queue: Int32, _ changes: UnsafePointer<kevent64_s>?, _ changeCount: Int32, _ events: UnsafeMutablePointer<kevent64_s>?,
    _ eventCount: Int32, _ flags: UInt32, _ timeout: UnsafePointer<timespec>?
) -> Int32 { 0 }
public var EVFILT_READ: Int32 { -1 }
public var EVFILT_WRITE: Int32 { -2 }
public var EVFILT_TIMER: Int32 { -7 }
public var EVFILT_USER: Int32 { -10 }
public var EV_ADD: Int32 { 1 }
public var EV_DELETE: Int32 { 2 }
public var EV_ONESHOT: Int32 { 0x10 }
public var EV_CLEAR: Int32 { 0x20 }
public var NOTE_NSECONDS: Int32 { 4 }
public var NOTE_TRIGGER: Int32 { 0x0100_0000 }
public let OPEN_MAX: Int32 = 10240
