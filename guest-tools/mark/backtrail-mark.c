/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail-mark: leave a mark in the trace of this machine
 *
 * The name is known only now, and it has to be in code that is executed.  So
 * the mark is written into a page of its own, and called there.
 */

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backtrail-mark.h"

/* Exit codes */
#define FAILED  1
#define USAGE   2

#define PAGE    4096

/* The type by which a mark with a value is called */
typedef void mark_fn(uint64_t value);

static const uint8_t begin[] = {
    0xf3, 0x0f, 0x1e, 0xfa,     /* endbr64 */
    0x48, 0x89, 0xf8,           /* mov %rdi, %rax */
};
static const uint8_t head[] = {
    BACKTRAIL_MARK_SIGNATURE, BACKTRAIL_MARK_VERSION,
};
static const uint8_t value_code[] = { BACKTRAIL_MARK_VALUE_CODE };

static uint8_t *put(uint8_t *at, const void *bytes, size_t n)
{
    memcpy(at, bytes, n);
    return at + n;
}

static uint8_t *put_byte(uint8_t *at, uint8_t byte)
{
    return put(at, &byte, 1);
}

static void write_mark(uint8_t *page, const char *name, bool has_value)
{
    size_t size = strlen(name) + 1;
    uint8_t *at = put(page, begin, sizeof(begin));

    at = put_byte(at, 0xeb);
    at = put_byte(at, sizeof(head) + 1 + size);
    at = put(at, head, sizeof(head));
    at = put_byte(at, has_value ? BACKTRAIL_MARK_HAS_VALUE : 0);
    at = put(at, name, size);
    if (has_value) {
        at = put(at, value_code, sizeof(value_code));
    }
    put_byte(at, 0xc3);         /* ret */
}

static int fail(const char *what)
{
    fprintf(stderr, "backtrail-mark: cannot %s: %s\n", what, strerror(errno));
    return FAILED;
}

/* The page is never writable and executable at the same time. */
static int leave_mark(const char *name, bool has_value, uint64_t value)
{
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mark_fn *mark;

    if (page == MAP_FAILED) {
        return fail("map a page");
    }
    write_mark(page, name, has_value);
    if (mprotect(page, PAGE, PROT_READ | PROT_EXEC)) {
        return fail("make a page executable");
    }
    memcpy(&mark, &page, sizeof(mark));
    mark(value);
    return 0;
}

static void print_usage(FILE *out)
{
    fputs("Usage: backtrail-mark NAME [VALUE]\n"
          "\n"
          "Leave a mark in the trace of this machine, if there is one.\n"
          "\n"
          "NAME has 1 to 60 bytes.  VALUE is a whole number of 64 bits: "
          "decimal, below 0,\n"
          "or with 0x before it.\n"
          "\n"
          "  -h, --help     print this\n"
          "  -V, --version  print the version\n", out);
}

static int usage_error(const char *what, const char *text)
{
    fprintf(stderr, "backtrail-mark: '%s' %s; see --help\n", text, what);
    return USAGE;
}

/* Numbers below 0 are those that are the same in 64 bits. */
static bool parse_value(const char *text, uint64_t *value)
{
    bool negative = *text == '-';
    const char *digits = text + negative;
    bool hex = digits[0] == '0' && (digits[1] | 0x20) == 'x';
    char *end;

    /* strtoull() would take blanks and signs. */
    digits += hex ? 2 : 0;
    if (!*digits || digits[strspn(digits, hex ? "0123456789abcdefABCDEF" :
                                  "0123456789")]) {
        return false;
    }
    errno = 0;
    *value = strtoull(digits, &end, hex ? 16 : 10);
    if (errno || (negative && *value > UINT64_C(1) << 63)) {
        return false;
    }
    *value = negative ? -*value : *value;
    return true;
}

static int mark(int n, char **words)
{
    uint64_t value = 0;

    if (n < 1 || n > 2) {
        print_usage(stderr);
        return USAGE;
    }
    if (!*words[0] || strlen(words[0]) > BACKTRAIL_MARK_NAME_MAX) {
        return usage_error("is not a name of 1 to 60 bytes", words[0]);
    }
    if (n == 2 && !parse_value(words[1], &value)) {
        return usage_error("is not a number of 64 bits", words[1]);
    }
    return leave_mark(words[0], n == 2, value);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL }
    };
    int option;

    /* A number below 0 is not an option: options come first. */
    while ((option = getopt_long(argc, argv, "+hV", options, NULL)) != -1) {
        switch (option) {
        case 'h':
            print_usage(stdout);
            return 0;
        case 'V':
            puts("backtrail-mark " BACKTRAIL_VERSION);
            return 0;
        default:
            return USAGE;
        }
    }
    return mark(argc - optind, argv + optind);
}
