/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records with names: see named-lines.h
 */

#include <inttypes.h>
#include <string.h>

#include "cli/named-lines.h"
#include "find/marks.h"
#include "lib/agent/batch.h"
#include "symbolize/instruction.h"

/* Of more without a branch nobody reads all, as of what is not code; and each
 * of a trace's records may have as many. */
#define MAX_INSTRUCTIONS    4096

/* Where the last record of a vCPU went */
struct link {
    bool known;
    uint64_t to;
    uint64_t index;
};

/* @marks: NULL if they cannot be read */
struct named_lines {
    struct named_lines_options o;
    struct marks *marks;
    struct link links[BTRAIL_MAX_VCPUS];
    uint64_t printed;           /* records */
};

struct named_lines *named_lines_new(const struct named_lines_options *options)
{
    struct named_lines *l = g_new0(struct named_lines, 1);

    l->o = *options;
    l->marks = marks_new(options->in->trace.trace, options->in->names, NULL);
    return l;
}

void named_lines_free(struct named_lines *l)
{
    if (l) {
        marks_free(l->marks);
        g_free(l);
    }
}

void named_lines_gap(struct named_lines *l, unsigned vcpu)
{
    l->links[vcpu].known = false;
}

static void put_line(const struct named_lines *l, const struct process *p,
                     const struct symbolizer_where *where, uint64_t address,
                     const char **last, unsigned *last_line)
{
    struct place place;
    const char *file;
    unsigned line;

    symbolizer_place(l->o.in->names, p, where, address, &place);
    if (symbolizer_line(l->o.in->names, &place, &file, &line) &&
        (file != *last || line != *last_line)) {
        cli_fprintf(l->o.out, "\t%s:%u\n", file, line);
        *last = file;
        *last_line = line;
    }
}

/* Is something missing in the trace between an instruction and a record? */
static bool is_hole(const uint8_t *bytes, size_t n, unsigned bits,
                    uint64_t address, const struct named_record *r)
{
    struct instruction insn;

    return address < r->from &&
           instruction_decode(bytes, n, bits, address, &insn) &&
           instruction_always_goes(&insn);
}

/* Why instructions end before the record, for people and in JSON */
enum code_end {
    CODE_LEADS_THERE,           /* or the last one says that it is none */
    CODE_MISSING,
    CODE_LIMIT,
};

static const struct {
    const char *text;
    const char *json;
} code_ends[] = {
    [CODE_MISSING] = { "what followed is not in the trace", "missing" },
    [CODE_LIMIT] = { "what followed is more than is printed", "limit" },
};

/* Prints the instructions that were executed since the last record, as far as
 * they lead to it. */
static enum code_end put_code(const struct named_lines *l, unsigned vcpu,
                              const struct process *p,
                              const struct named_record *r)
{
    struct symbolizer_where where = *r->where;
    uint64_t address = l->links[vcpu].to;
    const char *file = NULL;
    unsigned i, line = 0;

    where.index = r->index;
    for (i = 0; address <= r->from; i++) {
        char text[INSTRUCTION_TEXT];
        uint8_t bytes[INSTRUCTION_MAX];
        unsigned bits, len;
        bool exact;
        size_t n;

        if (i == MAX_INSTRUCTIONS) {
            return CODE_LIMIT;
        }
        n = symbolizer_code(l->o.in->names, p, &where, address, bytes,
                            sizeof(bytes), &exact);
        bits = symbolizer_bits(l->o.in->names, p, &where, address);
        len = instruction_text(bytes, n, bits, address, text);
        if (l->o.json) {
            cli_fprintf(l->o.out, "%s{\"address\":\"0x%016" PRIx64
                        "\",\"text\":", i ? "," : "", address);
            cli_put_json_string(l->o.out, text);
            fputc('}', l->o.out);
        } else {
            if (l->o.lines) {
                put_line(l, p, &where, address, &file, &line);
            }
            cli_fprintf(l->o.out, "\t0x%016" PRIx64 "  %s%s\n", address, text,
                        exact || !len ? "" : "  (from the file)");
        }
        if (!len) {
            break;
        }
        if (is_hole(bytes, n, bits, address, r)) {
            return CODE_MISSING;
        }
        address += len;
    }
    return CODE_LEADS_THERE;
}

/* The mark that record @i of a batch is */
static bool read_mark(const struct named_lines *l, unsigned vcpu,
                      const struct btrail_batch *b, size_t i,
                      struct marks_found *mark)
{
    const struct btrail_batch one = btrail_batch_part(b, i, 1);

    return l->marks && marks_read(l->marks, vcpu, &one, mark);
}

static void put_mark_json(FILE *out, const struct marks_found *f)
{
    fputs(",\"mark\":{\"name\":", out);
    cli_put_json_string(out, f->mark.name);
    if (f->known) {
        cli_fprintf(out, ",\"value\":\"0x%016" PRIx64 "\"", f->value);
    } else if (f->mark.has_value) {
        fputs(",\"value\":null", out);
    }
    fputc('}', out);
}

static void put_named_json(const struct named_lines *l, unsigned vcpu,
                     const struct btrail_batch *b,
                     const struct btrail_record *record,
                     const struct named_record *r, bool linked,
                     const struct marks_found *mark)
{
    FILE *out = l->o.out;
    char time[CLI_TIME_SIZE], icount[CLI_TIME_SIZE], buf[NAMES_SIZE];
    const char *t = cli_format_time(&l->o.in->trace, b->time.host, time), *file;
    unsigned line;

    cli_fprintf(out, "{\"vcpu\":%u,\"index\":%" PRIu64 ",\"time\":%s,\"cr3\":"
                "\"0x%016" PRIx64 "\"", vcpu, r->index,
                !strcmp(t, "-") ? "null" : t, b->cr3 & ~BTRAIL_CR3_CODE);
    if (btrail_cr3_code_bits(b->cr3)) {
        cli_fprintf(out, ",\"bits\":%u", btrail_cr3_code_bits(b->cr3));
    }
    cli_fprintf(out, ",\"from\":\"0x%016" PRIx64 "\",\"to\":\"0x%016" PRIx64
                "\",\"flags\":%" PRIu64, record->from, record->to,
                cli_flags(record));
    if (l->o.icount) {
        cli_fprintf(out, ",\"icount\":%s",
                    cli_format_icount(record, &b->time, "null", icount));
    }
    fputs(",\"comm\":", out);
    cli_put_json_string(out, r->process->comm);
    if (r->process->pid >= 0) {
        cli_fprintf(out, ",\"pid\":%" PRId64, r->process->pid);
    }
    if (r->process->tid >= 0) {
        cli_fprintf(out, ",\"tid\":%" PRId64, r->process->tid);
    }
    cli_fprintf(out, ",\"certainty\":\"%s\"",
                btrail_certainty_name(r->certainty));
    fputs(",\"from_name\":", out);
    cli_put_json_string(out, names_text(r->from_place, r->from, buf));
    fputs(",\"to_name\":", out);
    cli_put_json_string(out, names_text(r->to_place, r->to, buf));
    if (mark) {
        put_mark_json(out, mark);
    }
    if (l->o.lines &&
        symbolizer_line(l->o.in->names, r->from_place, &file, &line)) {
        fputs(",\"file\":", out);
        cli_put_json_string(out, file);
        cli_fprintf(out, ",\"line\":%u", line);
    }
    if (l->o.insn) {
        enum code_end end = CODE_LEADS_THERE;

        fputs(",\"code\":[", out);
        if (linked) {
            end = put_code(l, vcpu, r->process, r);
        }
        fputc(']', out);
        if (end != CODE_LEADS_THERE) {
            cli_fprintf(out, ",\"code_ends\":\"%s\"", code_ends[end].json);
        }
    }
    fputs("}\n", out);
}

static void put_named_text(const struct named_lines *l, unsigned vcpu,
                     const struct btrail_batch *b,
                     const struct btrail_record *record,
                     const struct named_record *r, bool linked,
                     const struct marks_found *mark)
{
    FILE *out = l->o.out;
    char time[CLI_TIME_SIZE], icount[CLI_TIME_SIZE];
    char from[NAMES_SIZE], to[NAMES_SIZE], text[MARKS_TEXT];
    const char *file = NULL;
    unsigned line = 0;

    if (l->o.insn && linked) {
        enum code_end end = put_code(l, vcpu, r->process, r);

        if (end != CODE_LEADS_THERE) {
            cli_fprintf(out, "\t(%s)\n", code_ends[end].text);
        }
    } else if (l->o.lines) {
        put_line(l, r->process, r->where, r->from, &file, &line);
    }
    cli_fprintf(out, "%u %" PRIu64 " %s 0x%016" PRIx64 " 0x%016" PRIx64
                " 0x%016" PRIx64 " 0x%" PRIx64, vcpu, r->index,
                cli_format_time(&l->o.in->trace, b->time.host, time),
                b->cr3 & ~BTRAIL_CR3_CODE, record->from, record->to,
                cli_flags(record));
    if (l->o.icount) {
        cli_fprintf(out, " %s",
                    cli_format_icount(record, &b->time, "-", icount));
    }
    cli_fprintf(out, "  %s%s", r->certainty == BTRAIL_LIKELY ? "~" : "",
                r->process->comm);
    if (r->process->pid >= 0) {
        cli_fprintf(out, " %" PRId64, r->process->pid);
    }
    if (r->process->tid >= 0 && r->process->tid != r->process->pid) {
        cli_fprintf(out, "/%" PRId64, r->process->tid);
    }
    cli_fprintf(out, "  %s -> %s", names_text(r->from_place, r->from, from),
                names_text(r->to_place, r->to, to));
    if (mark) {
        cli_fprintf(out, "  mark %s", marks_text(mark, text));
    }
    fputc('\n', out);
}

/* Records of one task */
static void put_part(struct named_lines *l, unsigned vcpu,
                     const struct task *task, const struct btrail_batch *b)
{
    struct link *link = &l->links[vcpu];
    struct place from, to;
    struct named_record r = {
        .vcpu = vcpu, .from_place = &from, .to_place = &to,
        .lines = l->o.in->names, .process = task->process,
        .time = window_time(&l->o.in->window, b->time.host),
        .where = &task->where,
    };

    for (size_t i = 0; i < b->count; i++) {
        const struct btrail_record *record = &b->records[i];
        bool linked;

        r.index = b->index + i;
        r.from = record->from;
        r.to = record->to;
        r.certainty = r.from >= ADDRESS_SHARED ? task->kernel : task->user;
        linked = link->known && link->index + 1 == r.index &&
                 link->to <= r.from;
        symbolizer_place(l->o.in->names, r.process, r.where, r.from, &from);
        symbolizer_target(l->o.in->names, r.process, r.where, r.to, &to);
        if (!l->o.in->filter || filter_matches(l->o.in->filter, &r)) {
            struct marks_found mark;
            bool marked = read_mark(l, vcpu, b, i, &mark);

            l->printed++;
            if (l->o.json) {
                put_named_json(l, vcpu, b, record, &r, linked,
                               marked ? &mark : NULL);
            } else {
                put_named_text(l, vcpu, b, record, &r, linked,
                               marked ? &mark : NULL);
            }
        }
        *link = (struct link) { true, record->to, r.index };
    }
}

uint64_t named_lines_printed(const struct named_lines *l)
{
    return l->printed;
}

void named_lines_records(struct named_lines *l, unsigned vcpu,
                         const struct btrail_batch *b, size_t first, size_t n)
{
    const struct btrail_batch some = btrail_batch_part(b, first, n);
    struct btrail_batch part = { .count = 0 };
    struct task task;

    while (symbolizer_part(l->o.in->names, vcpu, &some, &part, &task)) {
        put_part(l, vcpu, &task, &part);
    }
}
