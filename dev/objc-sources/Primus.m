// Objective-C code with every line of the README of Primus-Objc, and of the article MigratingFromPrimusObjc; see dev/objc-header.
@import Foundation;
#import "PrimusSwift-Swift.h"

@interface Counter : NSObject <PluginProtocol>
@end

@implementation Counter

- (instancetype)initWithPrimus:(Primus *)primus {
    self = [super init];
    if (self) {
        [primus on:@"data" selector:@selector(received:) target:self];
    }
    return self;
}

- (void)received:(id)data {
    NSLog(@"%@", data);
}

@end

@interface MyParser : NSObject <ParserProtocol>
@end

@implementation MyParser

- (instancetype)init {
    return [super init];
}

- (void)encode:(id)data callback:(void (__attribute__((noescape)) ^)(NSError *, id))callback {
    callback(nil, data);
}

- (void)decode:(id)data callback:(void (__attribute__((noescape)) ^)(NSError *, id))callback {
    callback(nil, data);
}

@end

@interface Primus (Transforms)
- (void)addTransforms;
@end

@implementation Primus (Transforms)

- (void)addTransforms {
    [self transform:@"incoming" fn:^BOOL(NSMutableDictionary *data) {
        data[@"foo"] = @"bar";

        return YES;
    }];
}

@end

void start(void) {
    NSURL *url = [NSURL URLWithString:@"http://localhost:9090/primus"];

    Primus *primus = [[Primus alloc] initWithURL:url];

    [primus on:@"reconnect" listener:^(PrimusReconnectOptions *options) {
        NSLog(@"[reconnect] - We are scheduling a new reconnect attempt");
    }];

    [primus on:@"online" listener:^{
        NSLog(@"[network] - We have regained control over our internet connection.");
    }];

    [primus on:@"offline" listener:^{
        NSLog(@"[network] - We lost our internet connection.");
    }];

    [primus on:@"open" listener:^{
        NSLog(@"[open] - The connection has been established.");
    }];

    [primus on:@"error" listener:^(NSError *error) {
        NSLog(@"[error] - Error: %@", error);
    }];

    [primus on:@"data" listener:^(NSDictionary *data, id raw) {
        NSLog(@"[data] - Received data: %@", data);
    }];

    [primus on:@"end" listener:^{
        NSLog(@"[end] - The connection has ended.");
    }];

    [primus on:@"close" listener:^{
        NSLog(@"[close] - We've lost the connection to the server.");
    }];

    [primus write:@{
        @"my-data": @(123)
    }];

    [primus write:@"example-data"];

    [primus end];
}

void startWithRequest(void) {
    NSMutableURLRequest *request = [NSMutableURLRequest requestWithURL:[NSURL URLWithString:@"http://localhost:9090/primus"]];

    [request setValue:@"Bearer <your-oauth-token-here>" forHTTPHeaderField:@"Authorization"];

    Primus *primus = [[Primus alloc] initWithURLRequest:request];

    [primus addTransforms];
}

void startWithOptions(void) {
    NSURL *url = [NSURL URLWithString:@"http://localhost:9090/primus"];

    PrimusConnectOptions *options = [[PrimusConnectOptions alloc] init];

    options.transformerClass = SocketRocketClient.class;
    options.strategy = @[@(kPrimusReconnectionStrategyTimeout)];
    options.timeout = 200;
    options.manual = YES;

    Primus *primus = [[Primus alloc] initWithURL:url options:options];

    // Calling 'open' will start the connection
    [primus open];
}

void startWithMore(NSURLRequest *request, id argument, void (^block)(NSDictionary *data)) {
    PrimusConnectOptions *options = [[PrimusConnectOptions alloc] init];

    options.stayConnectedInBackground = YES;
    options.reconnect.retries = 3;
    options.plugins = @{ @"emitter": PrimusEmitter.class, @"counter": Counter.class };
    options.plugins = @{ @"emitter": PrimusEmitter.class };
    options.parserClass = MyParser.class;

    Primus *primus = [[Primus alloc] initWithURLRequest:request options:options];

    [primus once:@"open" listener:^{
        NSLog(@"end");
    }];
    [primus on:@"data" listener:block];
    [primus removeListener:@"data" listener:block];
    [primus removeAllListeners:@"data"];
    [primus removeAllListeners];
    [primus write:[@"example-data" dataUsingEncoding:NSUTF8StringEncoding]];
    [primus send:@"event" data:@{ @"a": @1 }];
    [primus emit:@"event" args:@[ argument ]];
    [primus id:^(NSString *socketId) {
        NSLog(@"%@", socketId);
    }];
    if (primus.readyState == kPrimusReadyStateOpen) {
        [primus end:@"bye"];
    }
}
