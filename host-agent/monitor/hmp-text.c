/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What QEMU's human monitor prints: see hmp-text.h
 */

#include <string.h>

#include "monitor/hmp-text.h"
#include "util/quote.h"

#define MOST        (4u << 20)      /* bytes of a text */
#define RANGES      4096
#define SHOWN       100             /* bytes of what is not understood */

/* Always false.  Commands that fail say so in their text, too. */
static bool not_understood(GError **error, const char *what, const char *text)
{
    g_autofree char *start = NULL;
    g_autofree char *quoted = NULL;

    text += strspn(text, "\r\n ");
    start = g_strndup(text, strnlen(text, SHOWN));
    start[strcspn(start, "\r\n")] = '\0';
    quoted = btrail_quote(start, "");
    return agent_fail(error, AGENT_ERROR_PROTOCOL,
                      "QEMU's monitor answers %s with '%s', which is not "
                      "understood", what, quoted);
}

/* At @p, @digits hexadecimal ones, or up to 16 if it is 0; NULL if not */
static const char *hex(const char *p, unsigned digits, uint64_t *value)
{
    unsigned n = 0;

    for (*value = 0; n < (digits ? digits : 16) && g_ascii_isxdigit(*p); n++) {
        *value = *value << 4 | (unsigned)g_ascii_xdigit_value(*p++);
    }
    return n && (!digits || n == digits) && !g_ascii_isxdigit(*p) ? p : NULL;
}

/* After @word at @p; NULL if something else is there, or @p is NULL */
static const char *after(const char *p, const char *word)
{
    return p && g_str_has_prefix(p, word) ? p + strlen(word) : NULL;
}

/* Is nothing left?  QEMU ends its lines with CR and LF. */
static bool at_end(const char *p)
{
    return p && !p[strspn(p, "\r\n")];
}

enum hmp_kind {
    KIND_NONE,
    KIND_MEMORY,
    KIND_OTHER,
};

/* The word between a priority and "): "; a name follows. */
static enum hmp_kind kind_of(const char **p)
{
    static const char *const memory[] = {
        "ram", "rom", "romd", "nv-ram", "nv-rom", "nv-romd",
    };
    static const char *const other[] = { "i/o", "ramd", "nv-ramd" };
    size_t length = strcspn(*p, ")");
    g_autofree char *word = g_strndup(*p, length);

    *p = after(*p + length, "): ");
    if (!*p) {
        return KIND_NONE;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(memory); i++) {
        if (!strcmp(word, memory[i])) {
            return KIND_MEMORY;
        }
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(other); i++) {
        if (!strcmp(word, other[i])) {
            return KIND_OTHER;
        }
    }
    return KIND_NONE;
}

/* "  START-LAST (prio N, KIND): NAME ..." */
static enum hmp_kind parse_line(const char *line, uint64_t *start,
                                uint64_t *last)
{
    const char *p = after(line, "  ");

    p = p ? hex(p, 16, start) : NULL;
    p = after(p, "-");
    p = p ? hex(p, 16, last) : NULL;
    p = after(p, " (prio ");
    if (!p || *last < *start) {
        return KIND_NONE;
    }
    p += *p == '-';
    if (!g_ascii_isdigit(*p)) {
        return KIND_NONE;
    }
    p = after(p + strspn(p, "0123456789"), ", ");
    return p ? kind_of(&p) : KIND_NONE;
}

/* Where the view that has the address space "memory" begins its ranges */
static bool find_view(char **lines, unsigned *first)
{
    static const char space[] = " AS \"memory\", root: ";
    unsigned found = 0, i;

    for (i = 0; lines[i]; i++) {
        if (g_str_has_prefix(lines[i], space)) {
            *first = i;
            found++;
        }
    }
    if (found != 1) {
        return false;
    }
    for (i = *first; lines[i] && g_str_has_prefix(lines[i], " AS \""); i++) {
    }
    *first = i + 1;
    return lines[i] && g_str_has_prefix(lines[i], " Root memory region: ");
}

/* Fills @ranges; returns the line that is not understood, or NULL. */
static const char *take_ranges(char **lines, unsigned i, GArray *ranges)
{
    uint64_t free_from = 0;
    bool full = false;          /* the last address is taken */

    for (; lines[i] && *lines[i]; i++) {
        struct hmp_range r = { 0 };
        uint64_t last = 0;
        enum hmp_kind kind = parse_line(lines[i], &r.address, &last);

        if (kind == KIND_NONE || full || r.address < free_from ||
            ranges->len == RANGES) {
            return lines[i];
        }
        full = last == UINT64_MAX;
        free_from = last + 1;
        r.size = last - r.address + 1;
        /* All of the addresses are no memory. */
        if (kind == KIND_MEMORY && r.size) {
            g_array_append_val(ranges, r);
        }
    }
    return NULL;
}

GArray *hmp_parse_ranges(const char *text, GError **error)
{
    g_autoptr(GArray) ranges = g_array_new(FALSE, FALSE,
                                           sizeof(struct hmp_range));
    g_auto(GStrv) lines = NULL;
    const char *bad = text;
    unsigned first = 0;

    if (strnlen(text, MOST + 1) > MOST) {
        agent_fail(error, AGENT_ERROR_PROTOCOL,
                   "QEMU's monitor answers info mtree with too much");
        return NULL;
    }
    lines = g_strsplit(text, "\n", -1);
    for (unsigned i = 0; lines[i]; i++) {
        lines[i][strcspn(lines[i], "\r")] = '\0';
    }
    if (find_view(lines, &first)) {
        bad = take_ranges(lines, first, ranges);
    }
    if (!bad && !ranges->len) {
        bad = "no memory";
    }
    if (bad) {
        not_understood(error, "info mtree", bad);
        return NULL;
    }
    return g_steal_pointer(&ranges);
}

bool hmp_parse_host_address(const char *text, uint64_t address,
                            uint64_t *host, GError **error)
{
    g_autofree char *what = g_strdup_printf("gpa2hva 0x%" G_GINT64_MODIFIER
                                            "x", address);
    const char *p = after(text, "Host virtual address for 0x");
    uint64_t said = 0;

    p = p ? hex(p, 0, &said) : NULL;
    p = after(p, " (");
    if (p && said == address) {
        /* A name of memory can have anything. */
        p = g_strrstr(p, ") is 0x");
        p = after(p, ") is 0x");
        p = p ? hex(p, 0, host) : NULL;
        if (at_end(p) && *host) {
            return true;
        }
    }
    return not_understood(error, what, text);
}

bool hmp_parse_bytes(const char *text, uint64_t address, uint8_t *bytes,
                     size_t size, GError **error)
{
    const char *p = text;

    for (size_t i = 0; p && i < size; i++) {
        uint64_t value = 0;

        if (i % 8 == 0) {
            p = hex(p, 16, &value);
            p = value == address + i ? after(p, ":") : NULL;
        }
        p = after(p, " 0x");
        p = p ? hex(p, 2, &value) : NULL;
        bytes[i] = (uint8_t)value;
        if (p && i % 8 == 7) {
            p += *p == '\r';
            p = after(p, "\n");
        }
    }
    return at_end(p) || not_understood(error, "xp", text);
}

/* The number after a name that is there once, after a blank or in a new line */
static bool number_after(const char *text, const char *name, uint64_t *value)
{
    const char *found = NULL, *p;

    for (p = strstr(text, name); p; p = strstr(p + 1, name)) {
        if (p == text || p[-1] == ' ' || p[-1] == '\n') {
            if (found) {
                return false;
            }
            found = p + strlen(name);
        }
    }
    return found && hex(found, 0, value);
}

bool hmp_parse_registers(const char *text, struct hmp_registers *r,
                         GError **error)
{
    uint64_t smm = 0;

    if (strnlen(text, MOST + 1) > MOST ||
        !number_after(text, "CR0=", &r->cr0) ||
        !number_after(text, "CR3=", &r->cr3) ||
        !number_after(text, "CR4=", &r->cr4) ||
        !number_after(text, "EFER=", &r->efer) ||
        !number_after(text, "SMM=", &smm) || smm > 1) {
        return not_understood(error, "info registers", text);
    }
    r->smm = smm;
    return true;
}
