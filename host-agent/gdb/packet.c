/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests of a gdb: see packet.h
 */

#include <string.h>

#include "gdb/packet.h"

bool packet_number(const char **text, uint64_t *number)
{
    const char *c = *text;
    uint64_t n = 0;

    for (; g_ascii_isxdigit(*c); c++) {
        if (n >> 60) {
            return false;
        }
        n = n << 4 | g_ascii_xdigit_value(*c);
    }
    if (c == *text) {
        return false;
    }
    *text = c;
    *number = n;
    return true;
}

bool packet_thread(const char **text, uint64_t *thread)
{
    /* A process can be before it, or alone: there is one. */
    if (**text == 'p') {
        const char *process = *text + 1;
        uint64_t number;

        if (g_str_has_prefix(process, "-1")) {
            process += 2;
        } else if (!packet_number(&process, &number)) {
            return false;
        }
        *text = process;
        *thread = PACKET_ANY;
        if (*process != '.') {
            return true;
        }
        ++*text;
    }
    if (g_str_has_prefix(*text, "-1")) {
        *text += 2;
        *thread = PACKET_ANY;
        return true;
    }
    return packet_number(text, thread);
}

static bool parse_value(char letter, const char **text,
                        struct packet_value *value)
{
    switch (letter) {
    case 'n':
        return packet_number(text, &value->number);
    case 't':
        return packet_thread(text, &value->number);
    case 'c':
        value->number = (unsigned char)**text;
        *text += !!**text;
        return value->number;
    default:
        value->text = *text;
        *text += strlen(*text);
        return true;
    }
}

bool packet_parse(const char *schema, const char *text,
                  struct packet_value values[PACKET_VALUES])
{
    unsigned n = 0;

    memset(values, 0, PACKET_VALUES * sizeof(*values));
    for (; *schema; schema++) {
        if (*schema == '?') {
            if (!*text) {
                return true;
            }
        } else if (strchr("ntcs", *schema)) {
            g_assert(n < PACKET_WHICH);
            if (!parse_value(*schema, &text, &values[n++])) {
                return false;
            }
        } else if (*text++ != *schema) {
            return false;
        }
    }
    return !*text;
}

const struct packet *packet_find(const struct packet *table,
                                 const char *request, const char **text)
{
    for (const struct packet *p = table; p->name; p++) {
        size_t n = strlen(p->name);

        if (!strncmp(request, p->name, n) && (*p->schema || !request[n])) {
            *text = request + n;
            return p;
        }
    }
    return NULL;
}

static bool parse_action(const char *action, struct packet_move *move)
{
    struct packet_value values[PACKET_VALUES];
    bool signal = *action == 'S' || *action == 'C';

    if (!strchr("sScC", *action)) {
        return false;
    }
    move->step = g_ascii_tolower(*action) == 's';
    if (!packet_parse(signal ? "cn?:t" : "c?:t", action, values)) {
        return false;
    }
    move->thread = values[signal ? 2 : 1].number;
    return true;
}

bool packet_move_parse(const char *actions, struct packet_move *move)
{
    g_auto(GStrv) list = g_strsplit(actions, ";", -1);
    struct packet_move each;
    bool any = false;

    for (char **action = list; *action; action++) {
        if (!parse_action(*action, &each)) {
            return false;
        }
        if (!any || (each.step && !move->step)) {
            *move = each;
        }
        any = true;
    }
    return any;
}
