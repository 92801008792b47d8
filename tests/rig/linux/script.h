/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads what "backtrail script --events" prints: lines by the hundred thousand,
 * of which fgets, strtoull and strspn would take most of the time.
 */
#ifndef RIG_SCRIPT_H
#define RIG_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct line {
    const char *text;       /* until the next line is read; ends with \n */
    int length;             /* without that */
    bool event, gap;        /* A gap is an event; an event is no record. */
    uint64_t index, cr3, from, to;
};

static void __attribute__((noreturn))
not_a_line(const char *text, size_t length)
{
    printf("not a line of a script: %.*s\n", (int)length, text);
    exit(1);
}

/* Skips a field and the blank behind it. */
static const char *skip(const char *at)
{
    while (*at != ' ' && *at != '\n') {
        at++;
    }
    return at + (*at == ' ');
}

static const char *decimal(const char *at, uint64_t *value)
{
    for (*value = 0; *at >= '0' && *at <= '9'; at++) {
        *value = *value * 10 + (*at - '0');
    }
    return at + (*at == ' ');
}

/* What two digits mean, the first in the low byte; -1: nothing */
static int16_t pairs[1 << 16];

static void learn_pairs(void)
{
    static const char digits[] = "0123456789abcdef";

    memset(pairs, -1, sizeof(pairs));
    for (int n = 0; n < 256; n++) {
        pairs[digits[n >> 4] | digits[n & 15] << 8] = n;
    }
}

/* Reads 0x, 16 digits and a blank; END is behind the line. */
static bool hexadecimal(const char **at, const char *end, uint64_t *value)
{
    int16_t byte, invalid = 0;
    uint16_t pair;

    if (end - *at < 19 || memcmp(*at, "0x", 2) != 0 || (*at)[18] != ' ') {
        return false;
    }
    for (int i = 2; i < 18; i += 2) {
        memcpy(&pair, *at + i, 2);
        byte = pairs[pair];
        invalid |= byte;
        *value = *value << 8 | byte;
    }
    *at += 19;
    return invalid >= 0;
}

/* Reads the next line of standard input; false at its end. */
static bool read_line(struct line *line)
{
    static char buffer[1 << 16];
    static size_t begin, end;
    const char *at, *newline;
    ssize_t done;

    if (!pairs[0]) {
        learn_pairs();
    }
    while (!(newline = memchr(buffer + begin, '\n', end - begin))) {
        memmove(buffer, buffer + begin, end - begin);
        end -= begin;
        begin = 0;
        done = read(STDIN_FILENO, buffer + end, sizeof(buffer) - end);
        if (done <= 0) {
            if (end) {
                not_a_line(buffer, end);
            }
            return false;
        }
        end += done;
    }
    line->text = buffer + begin;
    line->length = newline - line->text;
    begin += line->length + 1;

    at = skip(decimal(skip(line->text), &line->index));
    if (!hexadecimal(&at, newline, &line->cr3)) {
        not_a_line(line->text, line->length);
    }
    line->event = strncmp(at, "event ", 6) == 0;
    line->gap = line->event && strncmp(at, "event gap ", 10) == 0;
    if (!line->event && !(hexadecimal(&at, newline, &line->from) &&
                          hexadecimal(&at, newline, &line->to))) {
        not_a_line(line->text, line->length);
    }
    return true;
}

#endif /* RIG_SCRIPT_H */
