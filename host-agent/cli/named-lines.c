/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records with names: see named-lines.h
 */

#include <inttypes.h>
#include <string.h>

#include "symbolize/instruction.h"
#include "cli/named-lines.h"

/* More instructions without a branch are not code. */
#define MAX_INSTRUCTIONS    4096

/* Where the last record of a vCPU went */
struct link {
    bool known;
    uint64_t to;
    uint64_t index;
};

struct named_lines {
    struct named_lines_options o;
    struct link links[BTRAIL_MAX_VCPUS];
    uint64_t printed;           /* records */
};

struct named_lines *named_lines_new(const struct named_lines_options *options)
{
    struct named_lines *l = g_new0(struct named_lines, 1);

    l->o = *options;
    return l;
}

void named_lines_free(struct named_lines *l)
{
    g_free(l);
}

void named_lines_gap(struct named_lines *l, unsigned vcpu)
{
    l->links[vcpu].known = false;
}

static void put_line(const struct named_lines *l, const struct process *p,
                     uint64_t address, const char **last, unsigned *last_line)
{
    struct place place;
    const char *file;
    unsigned line;

    symbolizer_place(l->o.in->names, p, address, &place);
    if (symbolizer_line(l->o.in->names, &place, &file, &line) &&
        (file != *last || line != *last_line)) {
        cli_fprintf(l->o.out, "\t%s:%u\n", file, line);
        *last = file;
        *last_line = line;
    }
}

/* Prints the instructions that were executed since the last record. */
static void put_code(const struct named_lines *l, unsigned vcpu,
                     const struct process *p, const struct filter_record *r,
                     uint64_t cr3)
{
    const struct symbolizer_where where = { vcpu, r->index, cr3 };
    uint64_t address = l->links[vcpu].to;
    const char *file = NULL;
    unsigned i, line = 0;

    for (i = 0; i < MAX_INSTRUCTIONS && address <= r->from; i++) {
        char text[INSTRUCTION_TEXT];
        uint8_t bytes[INSTRUCTION_MAX];
        bool exact;
        size_t n = symbolizer_code(l->o.in->names, p, &where, address, bytes,
                                   sizeof(bytes), &exact);
        unsigned len = instruction_text(bytes, n,
                                        symbolizer_bits(l->o.in->names, p,
                                                        address),
                                        address, text);

        if (l->o.json) {
            cli_fprintf(l->o.out, "%s{\"address\":\"0x%016" PRIx64
                        "\",\"text\":", i ? "," : "", address);
            cli_put_json_string(l->o.out, text);
            fputc('}', l->o.out);
        } else {
            if (l->o.lines) {
                put_line(l, p, address, &file, &line);
            }
            cli_fprintf(l->o.out, "\t0x%016" PRIx64 "  %s%s\n", address, text,
                        exact || !len ? "" : "  (from the file)");
        }
        if (!len) {
            break;
        }
        address += len;
    }
}

static void put_named_json(const struct named_lines *l, unsigned vcpu,
                     const struct btrail_batch *b,
                     const struct btrail_record *record,
                     const struct filter_record *r, bool linked)
{
    FILE *out = l->o.out;
    char time[CLI_TIME_SIZE], icount[CLI_TIME_SIZE], buf[NAMES_SIZE];
    const char *t = cli_format_time(&l->o.in->trace, b->time.host, time), *file;
    unsigned line;

    cli_fprintf(out, "{\"vcpu\":%u,\"index\":%" PRIu64 ",\"time\":%s,\"cr3\":"
                "\"0x%016" PRIx64 "\",\"from\":\"0x%016" PRIx64
                "\",\"to\":\"0x%016" PRIx64 "\",\"flags\":%" PRIu64,
                vcpu, r->index, !strcmp(t, "-") ? "null" : t, b->cr3,
                record->from, record->to, cli_flags(record));
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
    if (l->o.lines &&
        symbolizer_line(l->o.in->names, r->from_place, &file, &line)) {
        fputs(",\"file\":", out);
        cli_put_json_string(out, file);
        cli_fprintf(out, ",\"line\":%u", line);
    }
    if (l->o.insn) {
        fputs(",\"code\":[", out);
        if (linked) {
            put_code(l, vcpu, r->process, r, b->cr3);
        }
        fputc(']', out);
    }
    fputs("}\n", out);
}

static void put_named_text(const struct named_lines *l, unsigned vcpu,
                     const struct btrail_batch *b,
                     const struct btrail_record *record,
                     const struct filter_record *r, bool linked)
{
    FILE *out = l->o.out;
    char time[CLI_TIME_SIZE], icount[CLI_TIME_SIZE];
    char from[NAMES_SIZE], to[NAMES_SIZE];
    const char *file = NULL;
    unsigned line = 0;

    if (l->o.insn && linked) {
        put_code(l, vcpu, r->process, r, b->cr3);
    } else if (l->o.lines) {
        put_line(l, r->process, r->from, &file, &line);
    }
    cli_fprintf(out, "%u %" PRIu64 " %s 0x%016" PRIx64 " 0x%016" PRIx64
                " 0x%016" PRIx64 " 0x%" PRIx64, vcpu, r->index,
                cli_format_time(&l->o.in->trace, b->time.host, time), b->cr3,
                record->from, record->to, cli_flags(record));
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
    cli_fprintf(out, "  %s -> %s\n", names_text(r->from_place, r->from, from),
                names_text(r->to_place, r->to, to));
}

/* Records of one task */
static void put_part(struct named_lines *l, unsigned vcpu,
                     const struct task *task, const struct btrail_batch *b)
{
    struct link *link = &l->links[vcpu];
    struct place from, to;
    struct filter_record r = {
        .vcpu = vcpu, .from_place = &from, .to_place = &to,
        .lines = l->o.in->names, .process = task->process,
        .time = window_time(&l->o.in->window, b->time.host),
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
        symbolizer_place(l->o.in->names, r.process, r.from, &from);
        symbolizer_place(l->o.in->names, r.process, r.to, &to);
        if (!l->o.in->filter || filter_matches(l->o.in->filter, &r)) {
            l->printed++;
            if (l->o.json) {
                put_named_json(l, vcpu, b, record, &r, linked);
            } else {
                put_named_text(l, vcpu, b, record, &r, linked);
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
    struct btrail_batch some = *b, part = { .count = 0 };
    struct task task;

    some.index += first;
    some.records += first;
    some.count = n;
    while (symbolizer_part(l->o.in->names, vcpu, &some, &part, &task)) {
        put_part(l, vcpu, &task, &part);
    }
}
