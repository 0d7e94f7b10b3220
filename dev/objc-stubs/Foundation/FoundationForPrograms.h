// A stub of more of Apple's Foundation, for the Objective-C code in dev/objc-sources, written from its documentation.
#pragma once
@import Foundation;
#pragma clang assume_nonnull begin

#define YES __objc_yes
#define NO __objc_no
#define nil ((id)0)
enum { NSUTF8StringEncoding = 4, kNilOptions = 0 };

void NSLog(NSString *format, ...) __attribute__((format(__NSString__, 1, 2)));

@interface NSConstantString : NSString
@end

@interface NSObject (Programs) <NSObject>
+ (instancetype)alloc;
+ (Class)class;
- (BOOL)isEqual:(nullable id)object;
@end

@interface NSString (Programs)
+ (instancetype)stringWithFormat:(NSString *)format, ... __attribute__((format(__NSString__, 1, 2)));
- (nullable NSData *)dataUsingEncoding:(NSUInteger)encoding;
- (BOOL)isEqualToString:(NSString *)string;
@end

@interface NSNumber (Programs)
+ (NSNumber *)numberWithInt:(int)value;
+ (NSNumber *)numberWithInteger:(NSInteger)value;
+ (NSNumber *)numberWithLong:(long)value;
@end

@interface NSMutableDictionary (Programs)
- (void)setObject:(nullable id)object forKeyedSubscript:(id)key;
@end

@interface NSDictionary (Programs)
+ (instancetype)dictionaryWithObjects:(const id _Nonnull [_Nullable])objects
                              forKeys:(const id<NSCopying> _Nonnull [_Nullable])keys
                                count:(NSUInteger)count;
- (nullable id)objectForKeyedSubscript:(id)key;
@end

typedef struct {
    unsigned long state;
    id __unsafe_unretained _Nullable *_Nullable itemsPtr;
    unsigned long *_Nullable mutationsPtr;
    unsigned long extra[5];
} NSFastEnumerationState;

@interface NSArray (Programs)
+ (instancetype)arrayWithObjects:(const id _Nonnull [_Nullable])objects count:(NSUInteger)count;
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState *)state
                                  objects:(id __unsafe_unretained _Nullable [_Nonnull])buffer
                                    count:(NSUInteger)count;
@end

@interface NSURL (Programs)
- (nullable instancetype)initWithString:(NSString *)string;
+ (nullable instancetype)URLWithString:(NSString *)string;
@end

@interface NSURLRequest (Programs)
- (instancetype)initWithURL:(NSURL *)url;
+ (instancetype)requestWithURL:(NSURL *)url;
@end

@interface NSMutableURLRequest (Programs)
@property(nullable, copy) NSData *HTTPBody;
@property(copy) NSString *HTTPMethod;
- (void)addValue:(NSString *)value forHTTPHeaderField:(NSString *)field;
- (void)setValue:(nullable NSString *)value forHTTPHeaderField:(NSString *)field;
@end

@interface NSError (Programs)
@property(readonly) NSInteger code;
@end

@interface NSUUID : NSObject
+ (instancetype)UUID;
@property(readonly, copy) NSString *UUIDString;
@end

@interface NSJSONSerialization : NSObject
+ (nullable id)JSONObjectWithData:(NSData *)data options:(NSUInteger)options error:(NSError *_Nullable __autoreleasing *_Nullable)error;
@end

#pragma clang assume_nonnull end
