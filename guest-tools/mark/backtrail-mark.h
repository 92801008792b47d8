/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Marks: what a program says of itself in the trace of its machine
 *
 *   BACKTRAIL_MARK("request");          this was reached
 *   BACKTRAIL_MARK("request", id);      with a value
 *
 * For C and C++, programs, kernels and firmware, in 64-bit and 32-bit mode of
 * x86; elsewhere a mark is nothing.  It needs no library, no privilege and no
 * system call, and touches no memory.  When nobody traces it costs a jump, and
 * some instructions for each bit of the value.
 *
 * The name is a string literal of 1 to 60 bytes without NUL; it cannot have any
 * of " % \ { }.  The value is an integer or a pointer, of 64 bits or, in
 * 32-bit mode, of 32 bits.
 *
 * The interface
 * =============
 *
 * A mark is a jump over its head, which is recorded as every other branch is.
 * The head is found in the bytes of code that are captured with a trace:
 *
 *   J: jmp short T          the mark; its record goes from J to T
 *      head
 *   T:
 *
 * The head has
 *
 *   8 bytes    BACKTRAIL_MARK_SIGNATURE
 *   1 byte     BACKTRAIL_MARK_VERSION
 *   1 byte     flags, BACKTRAIL_MARK_HAS_VALUE; all others are 0
 *   n + 1      the name, and a NUL
 *
 * and comes in one of two forms: these bytes as they are, which no code has, as
 * the first two are UD2; or four of them in each of some instructions
 * "nopl disp32(%rax)" (0f 1f 80 and the four bytes), with more NULs at the end.
 * The second form is for kernels, whose build decodes all code.
 *
 * If there is a value, BACKTRAIL_MARK_VALUE_CODE is at T.  It shifts the value
 * in RAX to the right until nothing is left, and makes a record for each bit:
 *
 *   T:      shr $1, %rax
 *   T + 3:  ja  T           the bit is 0, and there are more
 *   T + 5:  jnz T           the bit is 1, and there are more
 *   T + 7:  jc  T + 11      the bit is 1, and is the last one
 *   T + 9:  jmp T + 11      there is none: the value is 0
 *   T + 11:
 */

#ifndef BACKTRAIL_MARK_H
#define BACKTRAIL_MARK_H

#define BACKTRAIL_MARK_SIGNATURE    BACKTRAIL_MARK_SIGNATURE_A_,             \
                                    BACKTRAIL_MARK_SIGNATURE_B_
#define BACKTRAIL_MARK_SIGNATURE_A_ 0x0f, 0x0b, 0x42, 0x74
#define BACKTRAIL_MARK_SIGNATURE_B_ 0x6d, 0x6b, 0x9a, 0xc5
#define BACKTRAIL_MARK_VERSION      1
#define BACKTRAIL_MARK_HAS_VALUE    1
#define BACKTRAIL_MARK_NAME_MAX     60
#define BACKTRAIL_MARK_NOP          0x0f, 0x1f, 0x80
#define BACKTRAIL_MARK_VALUE_CODE   BACKTRAIL_MARK_SHR_, 0x77, 0xfb, 0x75,   \
                                    0xf9, 0x72, 0x02, 0xeb, 0x00

/* In 32-bit mode the prefix, which is DS, only keeps the length. */
#ifdef __i386__
#define BACKTRAIL_MARK_SHR_         0x3e, 0xd1, 0xe8
#else
#define BACKTRAIL_MARK_SHR_         0x48, 0xd1, 0xe8
#endif

#define BACKTRAIL_MARK_TEXT_(...)   BACKTRAIL_MARK_TEXT2_(__VA_ARGS__)
#define BACKTRAIL_MARK_TEXT2_(...)  #__VA_ARGS__
#define BACKTRAIL_MARK_BYTES_(...)                                           \
    ".byte " BACKTRAIL_MARK_TEXT_(__VA_ARGS__) "\n\t"

/*
 * An asm statement counts as small, so that functions with it are inlined.  To
 * Linux, __inline__ is a macro.
 */
#if defined(__GNUC__) && __GNUC__ >= 9 && !defined(__clang__)
#define BACKTRAIL_MARK_ASM_         __asm__ __volatile__ __inline
#else
#define BACKTRAIL_MARK_ASM_         __asm__ __volatile__
#endif

/* The length of a name; an array of negative size if it cannot be one */
#define BACKTRAIL_MARK_LENGTH_(name)                                         \
    ((int)(sizeof(name) - 1) *                                               \
     (int)sizeof(char[sizeof(name) > 1 &&                                    \
                      sizeof(name) - 1 <= BACKTRAIL_MARK_NAME_MAX &&         \
                      __builtin_strlen("" name) == sizeof(name) - 1 ?        \
                      1 : -1]))

#ifdef __KERNEL__

/* Four bytes of a name */
#define BACKTRAIL_MARK_BYTE_(name, i)                                        \
    ((unsigned)(unsigned char)((i) < sizeof(name) ?                          \
                               (name)[(i) < sizeof(name) ? (i) : 0] : 0))
#define BACKTRAIL_MARK_WORD_(name, i)                                        \
    "i"((int)(BACKTRAIL_MARK_BYTE_(name, i) |                                \
              BACKTRAIL_MARK_BYTE_(name, i + 1) << 8 |                       \
              BACKTRAIL_MARK_BYTE_(name, i + 2) << 16 |                      \
              BACKTRAIL_MARK_BYTE_(name, i + 3) << 24))

/* The bytes of a name from @from on, if there are any */
#define BACKTRAIL_MARK_MORE_(from, operand)                                  \
    ".if %c[backtrail_length] >= " #from "\n\t"                              \
    BACKTRAIL_MARK_BYTES_(BACKTRAIL_MARK_NOP)                                \
    ".long %c[backtrail_" #operand "]\n\t"                                   \
    ".endif\n\t"

#define BACKTRAIL_MARK_HEAD_(name, flags)                                    \
    ".byte 0xeb, 4f - 2f\n"                                                  \
    "2:\t" BACKTRAIL_MARK_BYTES_(BACKTRAIL_MARK_NOP,                         \
                                 BACKTRAIL_MARK_SIGNATURE_A_)                \
    BACKTRAIL_MARK_BYTES_(BACKTRAIL_MARK_NOP, BACKTRAIL_MARK_SIGNATURE_B_)   \
    BACKTRAIL_MARK_BYTES_(BACKTRAIL_MARK_NOP, BACKTRAIL_MARK_VERSION, flags) \
    ".short %c[backtrail_0]\n\t"                                             \
    BACKTRAIL_MARK_MORE_(2, 2) BACKTRAIL_MARK_MORE_(6, 6)                    \
    BACKTRAIL_MARK_MORE_(10, 10) BACKTRAIL_MARK_MORE_(14, 14)                \
    BACKTRAIL_MARK_MORE_(18, 18) BACKTRAIL_MARK_MORE_(22, 22)                \
    BACKTRAIL_MARK_MORE_(26, 26) BACKTRAIL_MARK_MORE_(30, 30)                \
    BACKTRAIL_MARK_MORE_(34, 34) BACKTRAIL_MARK_MORE_(38, 38)                \
    BACKTRAIL_MARK_MORE_(42, 42) BACKTRAIL_MARK_MORE_(46, 46)                \
    BACKTRAIL_MARK_MORE_(50, 50) BACKTRAIL_MARK_MORE_(54, 54)                \
    BACKTRAIL_MARK_MORE_(58, 58)                                             \
    "\n4:\t"

#define BACKTRAIL_MARK_OPERANDS_(name)                                       \
    [backtrail_length] "i"(BACKTRAIL_MARK_LENGTH_(name)),                    \
    [backtrail_0] "i"((int)(BACKTRAIL_MARK_BYTE_(name, 0) |                  \
                            BACKTRAIL_MARK_BYTE_(name, 1) << 8)),            \
    [backtrail_2] BACKTRAIL_MARK_WORD_(name, 2),                             \
    [backtrail_6] BACKTRAIL_MARK_WORD_(name, 6),                             \
    [backtrail_10] BACKTRAIL_MARK_WORD_(name, 10),                           \
    [backtrail_14] BACKTRAIL_MARK_WORD_(name, 14),                           \
    [backtrail_18] BACKTRAIL_MARK_WORD_(name, 18),                           \
    [backtrail_22] BACKTRAIL_MARK_WORD_(name, 22),                           \
    [backtrail_26] BACKTRAIL_MARK_WORD_(name, 26),                           \
    [backtrail_30] BACKTRAIL_MARK_WORD_(name, 30),                           \
    [backtrail_34] BACKTRAIL_MARK_WORD_(name, 34),                           \
    [backtrail_38] BACKTRAIL_MARK_WORD_(name, 38),                           \
    [backtrail_42] BACKTRAIL_MARK_WORD_(name, 42),                           \
    [backtrail_46] BACKTRAIL_MARK_WORD_(name, 46),                           \
    [backtrail_50] BACKTRAIL_MARK_WORD_(name, 50),                           \
    [backtrail_54] BACKTRAIL_MARK_WORD_(name, 54),                           \
    [backtrail_58] BACKTRAIL_MARK_WORD_(name, 58)

#else /* a program */

/* The two .org refuse a name of another length than the compiler has seen: it
 * has a character that means something in an asm statement. */
#define BACKTRAIL_MARK_HEAD_(name, flags)                                    \
    ".byte 0xeb, 4f - 2f\n"                                                  \
    "2:\t" BACKTRAIL_MARK_BYTES_(BACKTRAIL_MARK_SIGNATURE,                   \
                                 BACKTRAIL_MARK_VERSION, flags)              \
    "\n3:\t.ascii \"" name "\"\n"                                            \
    "5:\t.org 3b + %c[backtrail_length]\n\t"                                 \
    ".org 5b + (5b - 3b) - %c[backtrail_length]\n\t"                         \
    ".byte 0\n"                                                              \
    "4:\t"

#define BACKTRAIL_MARK_OPERANDS_(name)                                       \
    [backtrail_length] "i"(BACKTRAIL_MARK_LENGTH_(name))

#endif

#if defined(__x86_64__)
__extension__ typedef unsigned long long backtrail_mark_value;
#else
typedef unsigned long backtrail_mark_value;
#endif

#if defined(__x86_64__) || defined(__i386__)

#define BACKTRAIL_MARK_PLAIN_(name)                                          \
    do {                                                                     \
        BACKTRAIL_MARK_ASM_(BACKTRAIL_MARK_HEAD_(name, 0)                    \
                            : : BACKTRAIL_MARK_OPERANDS_(name));             \
    } while (0)

#define BACKTRAIL_MARK_VALUE_(name, value)                                   \
    do {                                                                     \
        backtrail_mark_value backtrail_value_ =                              \
            (backtrail_mark_value)(value);                                   \
        BACKTRAIL_MARK_ASM_(                                                 \
            BACKTRAIL_MARK_HEAD_(name, BACKTRAIL_MARK_HAS_VALUE)             \
            BACKTRAIL_MARK_BYTES_(BACKTRAIL_MARK_VALUE_CODE)                 \
            : "+a"(backtrail_value_)                                         \
            : BACKTRAIL_MARK_OPERANDS_(name) : "cc");                        \
    } while (0)

#else

#define BACKTRAIL_MARK_PLAIN_(name)         do { } while (0)
#define BACKTRAIL_MARK_VALUE_(name, value)  do { (void)(value); } while (0)

#endif

#define BACKTRAIL_MARK_PICK_(a, b, pick, ...)   pick
#define BACKTRAIL_MARK(...)                                                  \
    BACKTRAIL_MARK_PICK_(__VA_ARGS__, BACKTRAIL_MARK_VALUE_,                 \
                         BACKTRAIL_MARK_PLAIN_, )(__VA_ARGS__)

#endif /* BACKTRAIL_MARK_H */
