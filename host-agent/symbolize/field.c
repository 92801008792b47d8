/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a record has by name: see field.h
 */

#include <glib.h>
#include <inttypes.h>
#include <string.h>

#include "symbolize/field.h"

#define MAX_NAMES   4

/* @title: of a column, or NULL; @names: the first one is that of JSON, too */
static const struct {
    const char *title;
    enum field_type type;
    bool common;
    const char *names[MAX_NAMES + 1];
} fields[N_FIELDS] = {
    [FIELD_COMM] = { "Command", FIELD_TYPE_TEXT, true,
                     { "comm", "process" } },
    [FIELD_PID] = { "Pid", FIELD_TYPE_SIGNED, true, { "pid" } },
    [FIELD_TID] = { "Tid", FIELD_TYPE_SIGNED, true, { "tid" } },
    [FIELD_CR3] = { "CR3", FIELD_TYPE_CR3, true, { "cr3" } },
    [FIELD_CPU] = { "CPU", FIELD_TYPE_NUMBER, true, { "cpu", "vcpu" } },
    [FIELD_DSO] = { "Shared Object", FIELD_TYPE_TEXT, false,
                    { "dso", "module", "dso_from" } },
    [FIELD_SYM] = { "Symbol", FIELD_TYPE_TEXT, false,
                    { "sym", "symbol", "function", "sym_from" } },
    [FIELD_SRCLINE] = { "Source:Line", FIELD_TYPE_TEXT, false,
                        { "srcline" } },
    [FIELD_FROM] = { "From", FIELD_TYPE_NUMBER, false, { "from", "ip" } },
    [FIELD_TO] = { "To", FIELD_TYPE_NUMBER, false, { "to", "addr" } },
    [FIELD_SYM_TO] = { "Target Symbol", FIELD_TYPE_TEXT, false,
                       { "sym_to" } },
    [FIELD_DSO_TO] = { "Target Object", FIELD_TYPE_TEXT, false,
                       { "dso_to" } },
    [FIELD_SRCLINE_TO] = { "Target:Line", FIELD_TYPE_TEXT, false,
                           { "srcline_to" } },
    [FIELD_TIME] = { NULL, FIELD_TYPE_TIME, true, { "time" } },
    [FIELD_INDEX] = { NULL, FIELD_TYPE_NUMBER, true, { "index" } },
    [FIELD_FILE] = { NULL, FIELD_TYPE_TEXT, false, { "file" } },
    [FIELD_LINE] = { NULL, FIELD_TYPE_NUMBER, false, { "line" } },
    [FIELD_USER] = { NULL, FIELD_TYPE_BOOL, false, { "user" } },
    [FIELD_KERNEL] = { NULL, FIELD_TYPE_BOOL, false, { "kernel" } },
};

/* The column that shows a field; N_FIELDS if none does */
static enum field column_of(enum field f)
{
    return f == FIELD_FILE || f == FIELD_LINE ? FIELD_SRCLINE :
           fields[f].title ? f : N_FIELDS;
}

static const char *nth_name(unsigned i, bool columns)
{
    for (enum field f = 0; f < N_FIELDS; f++) {
        const char *const *name = fields[f].names;

        if (columns && column_of(f) == N_FIELDS) {
            continue;
        }
        for (; *name; name++) {
            if (!i--) {
                return *name;
            }
        }
    }
    return NULL;
}

const char *field_name(unsigned i)
{
    return nth_name(i, false);
}

const char *field_column_name(unsigned i)
{
    return nth_name(i, true);
}

enum field field_find(const char *name)
{
    enum field f = 0;

    while (f < N_FIELDS && !g_strv_contains(fields[f].names, name)) {
        f++;
    }
    return f;
}

enum field field_find_column(const char *name)
{
    enum field f = field_find(name);

    return f == N_FIELDS ? f : column_of(f);
}

const char *field_json(enum field f)
{
    return fields[f].names[0];
}

const char *field_title(enum field f)
{
    return fields[f].title;
}

enum field_type field_type(enum field f)
{
    return fields[f].type;
}

bool field_is_common(enum field f)
{
    return fields[f].common;
}

bool field_is_target(enum field f)
{
    return f == FIELD_TO || f == FIELD_SYM_TO || f == FIELD_DSO_TO ||
           f == FIELD_SRCLINE_TO;
}

static const struct place *place_of(enum field f, const struct named_record *r)
{
    return field_is_target(f) ? r->to_place : r->from_place;
}

static bool find_line(enum field f, const struct named_record *r,
                      const char **file, unsigned *line)
{
    const struct place *place = place_of(f, r);

    return r->lines && place && symbolizer_line(r->lines, place, file, line);
}

static const char *line_text(enum field f, const struct named_record *r,
                             char buf[FIELD_TEXT])
{
    const char *file;
    unsigned line;

    if (!find_line(f, r, &file, &line)) {
        return "";
    }
    if (f == FIELD_FILE) {
        return file;
    }
    g_snprintf(buf, FIELD_TEXT, "%.400s:%u", file, line);
    return buf;
}

static const char *number_text(enum field f, const struct named_record *r,
                               char buf[FIELD_TEXT])
{
    uint64_t value = field_number(f, r);

    if (fields[f].type == FIELD_TYPE_SIGNED && (int64_t)value < 0) {
        return "?";
    }
    g_snprintf(buf, FIELD_TEXT, f == FIELD_CR3 || f == FIELD_FROM ||
               f == FIELD_TO ? "0x%016" PRIx64 : "%" PRIu64, value);
    return buf;
}

const char *field_text(enum field f, const struct named_record *r,
                       char buf[FIELD_TEXT])
{
    const struct place *place = place_of(f, r);

    switch (f) {
    case FIELD_COMM:
        return r->process->comm;
    case FIELD_DSO:
    case FIELD_DSO_TO:
        return place ? place->function->module->name : NAME_UNKNOWN;
    case FIELD_SYM:
    case FIELD_SYM_TO:
        return place ? place->function->name : NAME_UNKNOWN;
    case FIELD_SRCLINE:
    case FIELD_SRCLINE_TO:
    case FIELD_FILE:
        return line_text(f, r, buf);
    default:
        return number_text(f, r, buf);
    }
}

bool field_is_function(enum field f, const struct named_record *r,
                       const char *name)
{
    const struct place *place = f == FIELD_SYM || f == FIELD_SYM_TO ?
                                place_of(f, r) : NULL;

    return place && function_is(place->function, name);
}

uint64_t field_number(enum field f, const struct named_record *r)
{
    const char *file;
    unsigned line = 0;

    switch (f) {
    case FIELD_CPU:
        return r->vcpu;
    case FIELD_INDEX:
        return r->index;
    case FIELD_TIME:
        return r->time;
    case FIELD_PID:
        return r->process->pid;
    case FIELD_TID:
        return r->process->tid;
    case FIELD_CR3:
        return r->process->cr3;
    case FIELD_FROM:
        return r->from;
    case FIELD_TO:
        return r->to;
    case FIELD_LINE:
        find_line(f, r, &file, &line);
        return line;
    case FIELD_USER:
        return r->from < ADDRESS_SHARED;
    case FIELD_KERNEL:
        return r->from >= ADDRESS_SHARED;
    default:
        return 0;
    }
}
