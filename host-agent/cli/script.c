/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail script: print records and events, one a line
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define OUT_SIZE    (1u << 20)
/* No line is longer. */
#define LINE_MAX_SIZE   512

struct script {
    struct cli_trace trace;
    bool vcpus[BTRAIL_MAX_VCPUS];
    GArray *cr3s;
    struct cli_range index;
    struct cli_range time;      /* since the session's start */
    bool by_time;
    gboolean events;
    gboolean events_only;
    gboolean json;
    gboolean raw;
    uint64_t damage;
    char *out;
    size_t len;
    char hex[256][2];
};

/* A stream, and what comes next in it. */
struct source {
    struct btrail_cursor *cursor;
    unsigned vcpu;
    struct btrail_batch batch;
};

static void flush(struct script *s)
{
    size_t done = 0;

    while (done < s->len) {
        ssize_t n = write(STDOUT_FILENO, s->out + done, s->len - done);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            /* A reader that has seen enough (head, less) is no failure. */
            if (errno == EPIPE) {
                exit(CLI_OK);
            }
            cli_error("cannot write: %s", g_strerror(errno));
            exit(CLI_FAILED);
        }
        done += n;
    }
    s->len = 0;
}

static char *need_line(struct script *s)
{
    if (OUT_SIZE - s->len < LINE_MAX_SIZE) {
        flush(s);
    }
    return s->out + s->len;
}

static inline char *put_text(char *p, const char *text, size_t len)
{
    memcpy(p, text, len);
    return p + len;
}

static inline char *put_hex16(const struct script *s, char *p, uint64_t v)
{
    int shift;

    *p++ = '0';
    *p++ = 'x';
    for (shift = 56; shift >= 0; shift -= 8) {
        memcpy(p, s->hex[v >> shift & 0xff], 2);
        p += 2;
    }
    return p;
}

static inline char *put_decimal(char *p, uint64_t v)
{
    char digits[20];
    unsigned n = sizeof(digits);

    do {
        digits[--n] = '0' + v % 10;
        v /= 10;
    } while (v);
    return put_text(p, digits + n, sizeof(digits) - n);
}

/* What the lines of a batch have in common: before and after the index */
struct common {
    char before[64];
    size_t before_len;
    char after[128];
    size_t after_len;
};

static void format_common(const struct script *s, const struct source *src,
                          struct common *c)
{
    char time[CLI_TIME_SIZE];
    const char *t = cli_format_time(&s->trace, src->batch.time.host, time);

    if (s->json) {
        c->before_len = g_snprintf(c->before, sizeof(c->before),
                                   "{\"vcpu\":%u,\"index\":", src->vcpu);
        c->after_len = g_snprintf(c->after, sizeof(c->after),
                                  ",\"time\":%s,\"cr3\":\"0x%016"
                                  G_GINT64_MODIFIER "x\"",
                                  *t == '-' && !t[1] ? "null" : t,
                                  src->batch.cr3);
    } else {
        c->before_len = g_snprintf(c->before, sizeof(c->before), "%u ",
                                   src->vcpu);
        c->after_len = g_snprintf(c->after, sizeof(c->after), " %s 0x%016"
                                  G_GINT64_MODIFIER "x ", t, src->batch.cr3);
    }
}

static void print_records(struct script *s, const struct source *src,
                          const struct btrail_record *r, size_t n,
                          uint64_t index)
{
    struct common c;

    if (s->raw) {
        size_t left = n * sizeof(*r);
        const char *bytes = (const char *)r;

        while (left) {
            size_t step = MIN(left, OUT_SIZE - s->len);

            memcpy(s->out + s->len, bytes, step);
            s->len += step;
            bytes += step;
            left -= step;
            if (s->len == OUT_SIZE) {
                flush(s);
            }
        }
        return;
    }

    format_common(s, src, &c);
    for (; n; n--, r++, index++) {
        char *p = need_line(s);

        p = put_text(p, c.before, c.before_len);
        p = put_decimal(p, index);
        p = put_text(p, c.after, c.after_len);
        if (s->json) {
            p = put_text(p, ",\"from\":\"", 9);
            p = put_hex16(s, p, r->from);
            p = put_text(p, "\",\"to\":\"", 8);
            p = put_hex16(s, p, r->to);
            p = put_text(p, "\",\"flags\":", 10);
            p = put_decimal(p, r->flags);
            *p++ = '}';
        } else {
            p = put_hex16(s, p, r->from);
            *p++ = ' ';
            p = put_hex16(s, p, r->to);
            p += sprintf(p, " 0x%" G_GINT64_MODIFIER "x", r->flags);
        }
        *p++ = '\n';
        s->len = p - s->out;
    }
}

/* Members of an event: the text form, the JSON form */
static void print_event(struct script *s, const struct source *src)
{
    const struct btrail_event *e = src->batch.event;
    const char *reason = cli_event_reason(e->type, e->reason);
    const char *format;
    struct common c;
    char *p = need_line(s);

    format_common(s, src, &c);
    p = put_text(p, c.before, c.before_len);
    p = put_decimal(p, e->index);
    p = put_text(p, c.after, c.after_len);
    p += sprintf(p, s->json ? ",\"event\":\"%s\"" : "event %s",
                 cli_event_name(e->type));
    switch (e->type) {
    case BTRAIL_EVENT_CR3:
        /* It is in every line. */
        break;
    case BTRAIL_EVENT_TIME:
        format = s->json ?
            ",\"host\":%" G_GUINT64_FORMAT ",\"tsc\":%" G_GUINT64_FORMAT :
            " host=%" G_GUINT64_FORMAT " tsc=%" G_GUINT64_FORMAT;
        p += sprintf(p, format, e->data[0], e->data[1]);
        if (e->data[2] != BTRAIL_NO_ICOUNT) {
            format = s->json ? ",\"icount\":%" G_GUINT64_FORMAT :
                     " icount=%" G_GUINT64_FORMAT;
            p += sprintf(p, format, e->data[2]);
        }
        break;
    case BTRAIL_EVENT_GAP:
        p += sprintf(p, s->json ? ",\"reason\":\"%s\",\"lost\":" :
                     " reason=%s lost=", reason);
        if (e->data[0] != BTRAIL_LOST_UNKNOWN) {
            p = put_decimal(p, e->data[0]);
        } else {
            p += sprintf(p, s->json ? "null" : "unknown");
        }
        break;
    case BTRAIL_EVENT_PAUSE:
    case BTRAIL_EVENT_RESUME:
    case BTRAIL_EVENT_END:
        format = s->json ?
            ",\"reason\":\"%s\",\"host\":%" G_GUINT64_FORMAT :
            " reason=%s host=%" G_GUINT64_FORMAT;
        p += sprintf(p, format, reason, e->data[0]);
        break;
    default:
        format = s->json ? ",\"type\":%u,\"number\":%u" :
                 " type=%u number=%u";
        p += sprintf(p, format, e->type, e->reason);
        break;
    }
    if (s->json) {
        *p++ = '}';
    }
    *p++ = '\n';
    s->len = p - s->out;
}

static bool in_range(const struct cli_range *range, uint64_t v)
{
    return v >= range->begin && v < range->end;
}

/* Is a moment in the time range?  What has no time is in none. */
static bool time_matches(const struct script *s, uint64_t host)
{
    if (!s->by_time) {
        return true;
    }
    return host >= s->trace.start &&
           in_range(&s->time, host - s->trace.start);
}

static void print_batch(struct script *s, const struct source *src)
{
    const struct btrail_batch *b = &src->batch;
    uint64_t begin, end;

    if (b->event) {
        s->damage += b->synthetic;
        if (s->events && time_matches(s, b->time.host) &&
            in_range(&s->index, b->event->index)) {
            print_event(s, src);
        }
        return;
    }
    begin = MAX(b->index, s->index.begin);
    end = MIN(b->index + b->count, s->index.end);
    if (begin < end && time_matches(s, b->time.host) &&
        cli_cr3_matches(s->cr3s, b->cr3)) {
        print_records(s, src, b->records + (begin - b->index), end - begin,
                      begin);
    }
}

/* Is the stream done, as far as the ranges go? */
static bool past_range(const struct script *s, const struct btrail_batch *b)
{
    /* An event of the index where the range ends does not belong to it. */
    if (b->index >= s->index.end) {
        return true;
    }
    return s->by_time && b->time.host >= s->trace.start &&
           b->time.host - s->trace.start >= s->time.end;
}

/* False if there is no more, or after having said what is wrong. */
static bool next_batch(struct script *s, struct source *src, int *code)
{
    int ret = btrail_cursor_next(src->cursor, &src->batch);

    if (!ret) {
        return !past_range(s, &src->batch);
    }
    if (ret != -BTRAIL_ERR_END) {
        cli_error("%s: %s", s->trace.path, ret == -BTRAIL_ERR_IO ?
                  g_strerror(errno) : btrail_strerror(ret));
        *code = CLI_FAILED;
    }
    return false;
}

static void close_source(struct script *s, GArray *sources, unsigned i)
{
    struct source *src = &g_array_index(sources, struct source, i);

    s->damage += btrail_cursor_bad_chunks(src->cursor);
    btrail_cursor_close(src->cursor);
    g_array_remove_index(sources, i);
}

static void open_sources(struct script *s, GArray *sources, int *code)
{
    unsigned i, n = btrail_trace_streams(s->trace.trace);

    for (i = 0; i < n; i++) {
        unsigned flags = s->events_only ? BTRAIL_CURSOR_EVENTS_ONLY : 0;
        struct btrail_stream_info info;
        struct source src = { 0 };

        btrail_trace_stream(s->trace.trace, i, &info);
        if (!s->vcpus[info.vcpu]) {
            continue;
        }
        if (btrail_cursor_open(&src.cursor, s->trace.trace, info.vcpu,
                               flags)) {
            continue;
        }
        src.vcpu = info.vcpu;
        if (s->by_time) {
            btrail_cursor_seek_time(src.cursor,
                                    s->trace.start + s->time.begin);
        }
        if (s->index.begin) {
            btrail_cursor_seek(src.cursor, s->index.begin);
        }
        g_array_append_val(sources, src);
        if (!next_batch(s, &g_array_index(sources, struct source,
                                          sources->len - 1), code)) {
            close_source(s, sources, sources->len - 1);
        }
    }
}

/* Streams are merged by time, as exactly as TIME events tell it. */
static int print_all(struct script *s)
{
    GArray *sources = g_array_new(FALSE, FALSE, sizeof(struct source));
    int code = CLI_OK;

    open_sources(s, sources, &code);
    while (sources->len) {
        unsigned i, first = 0;
        struct source *src;

        for (i = 1; i < sources->len; i++) {
            if (g_array_index(sources, struct source, i).batch.time.host <
                g_array_index(sources, struct source, first).batch.time.host) {
                first = i;
            }
        }
        src = &g_array_index(sources, struct source, first);
        print_batch(s, src);
        if (!next_batch(s, src, &code)) {
            close_source(s, sources, first);
        }
    }
    g_array_free(sources, TRUE);
    flush(s);
    return code;
}

static bool check_vcpus(struct script *s, const char *list)
{
    unsigned i, n = btrail_trace_streams(s->trace.trace);
    struct btrail_stream_info info;
    unsigned selected = 0;

    if (list) {
        if (!cli_parse_vcpus("--vcpu", list, s->vcpus)) {
            return false;
        }
    } else {
        memset(s->vcpus, true, sizeof(s->vcpus));
    }
    for (i = 0; i < n; i++) {
        btrail_trace_stream(s->trace.trace, i, &info);
        selected += s->vcpus[info.vcpu];
    }
    if (list && !selected) {
        cli_error("%s: it has no records of vCPU %s", s->trace.path, list);
        return false;
    }
    if (s->raw && selected > 1) {
        cli_error("--raw needs exactly one vCPU, and the trace has more; "
                  "choose one with --vcpu");
        return false;
    }
    return true;
}

static void init_hex(struct script *s)
{
    static const char digits[] = "0123456789abcdef";
    unsigned i;

    for (i = 0; i < 256; i++) {
        s->hex[i][0] = digits[i >> 4];
        s->hex[i][1] = digits[i & 15];
    }
}

static int run(struct script *s, char *const *paths, const char *vcpus)
{
    int code = CLI_USAGE, verdict;

    if (!cli_trace_open(&s->trace, paths)) {
        return CLI_FAILED;
    }
    if (check_vcpus(s, vcpus)) {
        signal(SIGPIPE, SIG_IGN);
        init_hex(s);
        s->out = g_malloc(OUT_SIZE);
        code = print_all(s);
        g_free(s->out);
        verdict = cli_trace_verdict(&s->trace, s->damage);
        code = code ? code : verdict;
    }
    cli_trace_close(&s->trace);
    return code;
}

int cmd_script(int argc, char **argv)
{
    struct script s = {
        .index = { 0, UINT64_MAX },
        .time = { 0, UINT64_MAX },
    };
    g_autofree char *vcpus = NULL, *index = NULL, *time = NULL;
    g_auto(GStrv) cr3 = NULL;
    const GOptionEntry entries[] = {
        { "vcpu", 0, 0, G_OPTION_ARG_STRING, &vcpus,
          "only these vCPUs, such as 0,2-3", "LIST" },
        { "cr3", 0, 0, G_OPTION_ARG_STRING_ARRAY, &cr3,
          "only records of this address space; can be repeated", "ADDR" },
        { "index", 0, 0, G_OPTION_ARG_STRING, &index,
          "only from index A to before B", "A..B" },
        { "time", 0, 0, G_OPTION_ARG_STRING, &time,
          "only from second A after the start to before B", "A..B" },
        { "events", 0, 0, G_OPTION_ARG_NONE, &s.events,
          "print events too", NULL },
        { "events-only", 0, 0, G_OPTION_ARG_NONE, &s.events_only,
          "print events and no records, which is fast", NULL },
        { "json", 0, 0, G_OPTION_ARG_NONE, &s.json,
          "print a JSON object a line", NULL },
        { "raw", 0, 0, G_OPTION_ARG_NONE, &s.raw,
          "print the 24-byte records of one vCPU as they are", NULL },
        { NULL }
    };
    int code = CLI_USAGE;

    if (!cli_parse(&argc, &argv, entries, -1, "FILE...",
                   "Print the records of a trace, one a line: vCPU, index, "
                   "time, CR3, from, to, flags.") ||
        (index && !cli_parse_range("--index", index, &s.index)) ||
        (time && !cli_parse_time_range("--time", time, &s.time)) ||
        !cli_parse_cr3s(cr3, &s.cr3s)) {
        return CLI_USAGE;
    }
    s.by_time = time;
    s.events |= s.events_only;
    if (s.raw && (s.json || s.events)) {
        cli_error("--raw does not go with --json or events");
    } else {
        code = run(&s, argv + 1, vcpus);
    }
    if (s.cr3s) {
        g_array_unref(s.cr3s);
    }
    return code;
}
