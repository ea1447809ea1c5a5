/* sanitized.h: is this a build with AddressSanitizer? GCC and clang say it each in
 * its way. */
#ifndef LUO_STANDIN_SANITIZED_H
#define LUO_STANDIN_SANITIZED_H
#if defined(__SANITIZE_ADDRESS__)
#define STANDIN_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STANDIN_SANITIZED 1
#endif
#endif
#ifndef STANDIN_SANITIZED
#define STANDIN_SANITIZED 0
#endif
#endif
