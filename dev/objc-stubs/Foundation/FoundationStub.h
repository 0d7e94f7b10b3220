// A stub of Apple's Foundation for dev/objc-header: the classes that this package uses, written from their documentation.
#pragma once
@import ObjectiveC;
#pragma clang assume_nonnull begin

#define NS_ENUM(_type, _name) enum _name : _type _name; enum _name : _type
typedef double NSTimeInterval;

@protocol NSCopying
@end

@class NSString;

@interface NSString : NSObject <NSCopying>
@end
@interface NSNumber : NSObject
- (instancetype)initWithInteger:(NSInteger)value;
- (instancetype)initWithDouble:(double)value;
@property(readonly) NSInteger integerValue;
@property(readonly) double doubleValue;
@end
@interface NSNull : NSObject
@end
@interface NSArray : NSObject
@end
@interface NSDictionary : NSObject
@end
@interface NSMutableDictionary : NSDictionary
- (instancetype)init;
@end
@interface NSSet : NSObject
@end
@interface NSData : NSObject
@end
@interface NSURL : NSObject
@end
@interface NSError : NSObject
@end
@interface NSURLRequest : NSObject
@end
@interface NSMutableURLRequest : NSURLRequest
@end
@interface NSURLResponse : NSObject
@end
@interface NSHTTPURLResponse : NSURLResponse
@end
@interface NSURLSessionDataTask : NSObject
- (void)resume;
@end
@interface NSURLSession : NSObject
@end

#pragma clang assume_nonnull end
