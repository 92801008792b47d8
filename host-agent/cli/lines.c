/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records and events as text: see lines.h
 *
 * Making text takes much longer than decoding.  So records are collected in
 * jobs, of which threads make text; the caller helps when it must wait.  Only
 * the caller writes, in the order of the jobs.
 */

#include <stdio.h>
#include <string.h>

#include "cli/lines.h"
#include "util/quote.h"
#include "util/whole-io.h"

#define JOB_RECORDS     4096
#define JOB_ITEMS       512

/* Decoding is too slow to keep more threads busy. */
#define MAX_WORKERS     16

/* No line is longer. */
#define LINE_SIZE       512

/* An event, or consecutive records with the same time and CR3 */
struct lines_item {
    unsigned vcpu;
    uint64_t cr3;
    struct btrail_time time;
    uint64_t index;
    size_t records;             /* 0: this is an event */
    struct btrail_event event;
};

struct lines_job {
    struct lines_item items[JOB_ITEMS];
    struct btrail_record records[JOB_RECORDS];
    unsigned n_items;
    unsigned n_records;
    char *text;
    size_t len;
    size_t size;
    bool done;
};

struct lines {
    struct lines_options options;
    char hex[256][2];
    int error;

    GMutex lock;                /* of all below and @job->done */
    GCond changed;
    struct lines_job **jobs;
    unsigned n_jobs;
    uint64_t written;           /* jobs */
    uint64_t taken;
    uint64_t added;
    bool stop;
    GThread *threads[MAX_WORKERS];
    unsigned n_threads;
};

static inline char *put_bytes(char *p, const char *text, size_t len)
{
    memcpy(p, text, len);
    return p + len;
}

static inline char *put_hex16(const struct lines *l, char *p, uint64_t v)
{
    int shift;

    *p++ = '0';
    *p++ = 'x';
    for (shift = 56; shift >= 0; shift -= 8) {
        memcpy(p, l->hex[v >> shift & 0xff], 2);
        p += 2;
    }
    return p;
}

/* Without leading zeros */
static inline char *put_hex(const struct lines *l, char *p, uint64_t v)
{
    int shift = 0;

    while (shift < 60 && v >> shift >> 4) {
        shift += 4;
    }
    *p++ = '0';
    *p++ = 'x';
    for (; shift >= 0; shift -= 4) {
        *p++ = l->hex[v >> shift & 0xf][1];
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
    return put_bytes(p, digits + n, sizeof(digits) - n);
}

/* The text before and after the index, in all lines of an item */
struct lines_common {
    char before[64];
    size_t before_len;
    char after[128];
    size_t after_len;
};

static void put_common(const struct lines *l, const struct lines_item *item,
                       struct lines_common *c)
{
    char time[CLI_TIME_SIZE];
    const char *t = cli_format_time(l->options.trace, item->time.host, time);
    uint64_t cr3 = item->cr3 & ~BTRAIL_CR3_CODE;
    unsigned bits = btrail_cr3_code_bits(item->cr3);

    if (l->options.json) {
        c->before_len = g_snprintf(c->before, sizeof(c->before),
                                   "{\"vcpu\":%u,\"index\":", item->vcpu);
        c->after_len = g_snprintf(c->after, sizeof(c->after),
                                  ",\"time\":%s,\"cr3\":\"0x%016"
                                  G_GINT64_MODIFIER "x\"",
                                  *t == '-' && !t[1] ? "null" : t, cr3);
        if (bits) {
            c->after_len += g_snprintf(c->after + c->after_len,
                                       sizeof(c->after) - c->after_len,
                                       ",\"bits\":%u", bits);
        }
    } else {
        c->before_len = g_snprintf(c->before, sizeof(c->before), "%u ",
                                   item->vcpu);
        c->after_len = g_snprintf(c->after, sizeof(c->after), " %s 0x%016"
                                  G_GINT64_MODIFIER "x ", t, cr3);
    }
}

static char *put_icount(char *p, const struct lines_item *item,
                        const struct btrail_record *r, const char *unknown)
{
    uint64_t icount = btrail_record_icount(r, &item->time);

    return icount == BTRAIL_NO_ICOUNT ?
           put_bytes(p, unknown, strlen(unknown)) : put_decimal(p, icount);
}

static char *put_record(const struct lines *l, char *p,
                        const struct lines_common *c,
                        const struct lines_item *item, uint64_t index,
                        const struct btrail_record *r)
{
    p = put_bytes(p, c->before, c->before_len);
    p = put_decimal(p, index);
    p = put_bytes(p, c->after, c->after_len);
    if (l->options.json) {
        p = put_bytes(p, ",\"from\":\"", 9);
        p = put_hex16(l, p, r->from);
        p = put_bytes(p, "\",\"to\":\"", 8);
        p = put_hex16(l, p, r->to);
        p = put_bytes(p, "\",\"flags\":", 10);
        p = put_decimal(p, cli_flags(r));
        if (l->options.icount) {
            p = put_bytes(p, ",\"icount\":", 10);
            p = put_icount(p, item, r, "null");
        }
        *p++ = '}';
    } else {
        p = put_hex16(l, p, r->from);
        *p++ = ' ';
        p = put_hex16(l, p, r->to);
        *p++ = ' ';
        p = put_hex(l, p, cli_flags(r));
        if (l->options.icount) {
            *p++ = ' ';
            p = put_icount(p, item, r, "-");
        }
    }
    *p++ = '\n';
    return p;
}

static char *put_task(char *p, bool json, const struct btrail_event *e)
{
    g_autoptr(GString) comm = g_string_new(NULL);
    struct btrail_task task;

    btrail_event_task(e, &task);
    if (!task.known) {
        return p + sprintf(p, json ? ",\"tid\":null" : " unknown");
    }
    if (json) {
        btrail_quote_json(comm, task.name, BTRAIL_QUOTE_STRING);
    } else {
        btrail_quote_append(comm, task.name, BTRAIL_QUOTE_STRING);
    }
    return p + sprintf(p, json ?
                       ",\"tid\":%u,\"pid\":%u,\"kernel\":%s,\"comm\":\"%s\"" :
                       " tid=%u pid=%u kernel=%s comm=\"%s\"", task.tid,
                       task.pid, task.kernel ? "true" : "false", comm->str);
}

/* Why the task before does not run any more, if that is known */
static char *put_left(char *p, bool json, const struct btrail_event *e)
{
    struct btrail_left left;

    btrail_event_left(e, &left);
    if (!left.known) {
        return p;
    }
    return p + sprintf(p, json ? ",\"left\":\"%s\"" : " left=%s",
                       left.runnable ? "runnable" : left.dead ? "dead" :
                       left.interruptible ? "interruptible" :
                       left.uninterruptible ? "uninterruptible" : "blocked");
}

static char *put_wake(char *p, bool json, const struct btrail_event *e)
{
    struct btrail_wake wake;

    btrail_event_wake(e, &wake);
    if (!wake.known) {
        p += sprintf(p, json ? ",\"tid\":null" : " unknown");
    } else {
        p += sprintf(p, json ? ",\"tid\":%u,\"pid\":%u,\"kernel\":%s" :
                     " tid=%u pid=%u kernel=%s", wake.tid, wake.pid,
                     wake.kernel ? "true" : "false");
    }
    return p + sprintf(p, json ? ",\"new\":%s" : " new=%s",
                       wake.is_new ? "true" : "false");
}

static char *put_kernel(char *p, bool json, const struct btrail_event *e)
{
    struct btrail_kernel kernel;

    btrail_event_kernel(e, &kernel);
    if (!kernel.known) {
        return p + sprintf(p, json ? ",\"number\":null" : " unknown");
    }
    p += sprintf(p, json ? ",\"number\":%u,\"nested\":%s" :
                 " number=%u nested=%s", kernel.number,
                 kernel.nested ? "true" : "false");
    if (kernel.nested) {
        p += sprintf(p, json ? ",\"root\":\"0x%" G_GINT64_MODIFIER "x\"" :
                     " root=0x%" G_GINT64_MODIFIER "x", kernel.nested_root);
    }
    return p;
}

/* An event as a line, in text or JSON */
static char *put_event_line(const struct lines *l, char *p,
                            const struct lines_common *c,
                            const struct btrail_event *e)
{
    const char *reason = btrail_reason_name(e->type, e->reason) ?: "unknown";
    bool json = l->options.json;
    const char *format;

    p = put_bytes(p, c->before, c->before_len);
    p = put_decimal(p, e->index);
    p = put_bytes(p, c->after, c->after_len);
    p += sprintf(p, json ? ",\"event\":\"%s\"" : "event %s",
                 btrail_event_name(e->type) ?: "unknown");
    switch (e->type) {
    case BTRAIL_EVENT_CR3:
        /* It is in every line, but the mode is only in those of JSON. */
        if (!json && btrail_cr3_code_bits(e->data[0])) {
            p += sprintf(p, " bits=%u", btrail_cr3_code_bits(e->data[0]));
        }
        break;
    case BTRAIL_EVENT_TIME:
        format = json ?
            ",\"host\":%" G_GUINT64_FORMAT ",\"tsc\":%" G_GUINT64_FORMAT :
            " host=%" G_GUINT64_FORMAT " tsc=%" G_GUINT64_FORMAT;
        p += sprintf(p, format, e->data[0], e->data[1]);
        if (e->data[2] != BTRAIL_NO_ICOUNT) {
            format = json ? ",\"icount\":%" G_GUINT64_FORMAT :
                     " icount=%" G_GUINT64_FORMAT;
            p += sprintf(p, format, e->data[2]);
        }
        break;
    case BTRAIL_EVENT_GAP:
        p += sprintf(p, json ? ",\"reason\":\"%s\",\"lost\":" :
                     " reason=%s lost=", reason);
        if (e->data[0] != BTRAIL_LOST_UNKNOWN) {
            p = put_decimal(p, e->data[0]);
        } else {
            p += sprintf(p, json ? "null" : "unknown");
        }
        if (e->data[1]) {
            format = json ? ",\"bytes\":%" G_GUINT64_FORMAT :
                     " bytes=%" G_GUINT64_FORMAT;
            p += sprintf(p, format, e->data[1]);
        }
        break;
    case BTRAIL_EVENT_TASK:
        p = put_left(put_task(p, json, e), json, e);
        break;
    case BTRAIL_EVENT_WAKE:
        p = put_wake(p, json, e);
        break;
    case BTRAIL_EVENT_KERNEL:
        p = put_kernel(p, json, e);
        break;
    case BTRAIL_EVENT_PAUSE:
    case BTRAIL_EVENT_RESUME:
    case BTRAIL_EVENT_END:
        format = json ?
            ",\"reason\":\"%s\",\"host\":%" G_GUINT64_FORMAT :
            " reason=%s host=%" G_GUINT64_FORMAT;
        p += sprintf(p, format, reason, e->data[0]);
        break;
    default:
        format = json ? ",\"type\":%u,\"number\":%u" : " type=%u number=%u";
        p += sprintf(p, format, e->type, e->reason);
        break;
    }
    if (json) {
        *p++ = '}';
    }
    *p++ = '\n';
    return p;
}

static char *need_line(struct lines_job *job)
{
    if (job->size - job->len < LINE_SIZE) {
        job->size = MAX(2 * job->size, 64u << 10);
        job->text = g_realloc(job->text, job->size);
    }
    return job->text + job->len;
}

static void make_text(const struct lines *l, struct lines_job *job)
{
    const struct btrail_record *r = job->records;

    job->len = 0;
    for (unsigned i = 0; i < job->n_items; i++) {
        const struct lines_item *item = &job->items[i];
        struct lines_common c;
        char *p;

        put_common(l, item, &c);
        if (!item->records) {
            p = put_event_line(l, need_line(job), &c, &item->event);
            job->len = p - job->text;
        }
        for (size_t k = 0; k < item->records; k++) {
            p = put_record(l, need_line(job), &c, item, item->index + k,
                           r++);
            job->len = p - job->text;
        }
    }
}

/* Does the next job.  The lock is held, and released meanwhile. */
static void do_one(struct lines *l)
{
    struct lines_job *job = l->jobs[l->taken++ % l->n_jobs];

    g_mutex_unlock(&l->lock);
    make_text(l, job);
    g_mutex_lock(&l->lock);
    job->done = true;
    g_cond_broadcast(&l->changed);
}

static gpointer make_lines(gpointer data)
{
    struct lines *l = data;

    g_mutex_lock(&l->lock);
    while (!l->stop) {
        if (l->taken < l->added) {
            do_one(l);
        } else {
            g_cond_wait(&l->changed, &l->lock);
        }
    }
    g_mutex_unlock(&l->lock);
    return NULL;
}

/* Writes jobs until at most @n are left, with the lock held. */
static void write_jobs(struct lines *l, unsigned n)
{
    while (l->added - l->written > n) {
        struct lines_job *job = l->jobs[l->written % l->n_jobs];

        if (job->done) {
            g_mutex_unlock(&l->lock);
            if (!l->error) {
                l->error = whole_write(l->options.fd, job->text, job->len);
            }
            g_mutex_lock(&l->lock);
            job->n_items = job->n_records = 0;
            job->done = false;
            l->written++;
        } else if (l->taken < l->added) {
            do_one(l);
        } else {
            g_cond_wait(&l->changed, &l->lock);
        }
    }
}

/* The job that is being collected */
static struct lines_job *current(struct lines *l)
{
    return l->jobs[l->added % l->n_jobs];
}

static void add_job(struct lines *l)
{
    g_mutex_lock(&l->lock);
    l->added++;
    g_cond_broadcast(&l->changed);
    /* The next one must be free. */
    write_jobs(l, l->n_jobs - 1);
    g_mutex_unlock(&l->lock);
}

struct lines *lines_new(const struct lines_options *options)
{
    static const char digits[] = "0123456789abcdef";
    struct lines *l = g_new0(struct lines, 1);
    unsigned workers = MIN(options->threads, MAX_WORKERS) - 1, i;

    l->options = *options;
    for (i = 0; i < 256; i++) {
        l->hex[i][0] = digits[i >> 4];
        l->hex[i][1] = digits[i & 15];
    }
    g_mutex_init(&l->lock);
    g_cond_init(&l->changed);
    /* One that is being collected, and two for each thread */
    l->n_jobs = workers ? 2 * workers + 3 : 1;
    l->jobs = g_new(struct lines_job *, l->n_jobs);
    for (i = 0; i < l->n_jobs; i++) {
        l->jobs[i] = g_new0(struct lines_job, 1);
    }
    for (i = 0; i < workers; i++) {
        GThread *thread = g_thread_try_new("lines", make_lines, l, NULL);

        /* Without it, it merely takes longer. */
        if (thread) {
            l->threads[l->n_threads++] = thread;
        }
    }
    return l;
}

int lines_error(const struct lines *l)
{
    return l->error;
}

int lines_flush(struct lines *l)
{
    g_mutex_lock(&l->lock);
    l->added += current(l)->n_items > 0;
    g_cond_broadcast(&l->changed);
    write_jobs(l, 0);
    g_mutex_unlock(&l->lock);
    return l->error;
}

int lines_free(struct lines *l)
{
    int error;

    lines_flush(l);
    g_mutex_lock(&l->lock);
    l->stop = true;
    g_cond_broadcast(&l->changed);
    g_mutex_unlock(&l->lock);
    for (unsigned i = 0; i < l->n_threads; i++) {
        g_thread_join(l->threads[i]);
    }
    for (unsigned i = 0; i < l->n_jobs; i++) {
        g_free(l->jobs[i]->text);
        g_free(l->jobs[i]);
    }
    g_free(l->jobs);
    g_mutex_clear(&l->lock);
    g_cond_clear(&l->changed);
    error = l->error;
    g_free(l);
    return error;
}

static struct lines_item *add_item(struct lines *l, unsigned vcpu,
                             const struct btrail_batch *b)
{
    struct lines_job *job;
    struct lines_item *item;

    if (current(l)->n_items == JOB_ITEMS) {
        add_job(l);
    }
    job = current(l);
    item = &job->items[job->n_items++];
    *item = (struct lines_item) {
        .vcpu = vcpu, .cr3 = b->cr3, .time = b->time,
    };
    return item;
}

void lines_event(struct lines *l, unsigned vcpu, const struct btrail_batch *b)
{
    add_item(l, vcpu, b)->event = *b->event;
}

void lines_records(struct lines *l, unsigned vcpu,
                   const struct btrail_batch *b, size_t first, size_t n)
{
    while (n) {
        struct lines_item *item = add_item(l, vcpu, b);
        struct lines_job *job = current(l);
        size_t step = MIN(n, JOB_RECORDS - job->n_records);

        item->index = b->index + first;
        item->records = step;
        memcpy(job->records + job->n_records, b->records + first,
               step * sizeof(*b->records));
        job->n_records += step;
        first += step;
        n -= step;
        if (job->n_records == JOB_RECORDS) {
            add_job(l);
        }
    }
}
