/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guest of a recording has written: see guest-output.h
 */

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/guest-output.h"
#include "replay/replay-arguments.h"
#include "util/close.h"

#define MAGIC   "BtOutpt1"

#define refuse(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

/**
 * struct output_reader - the bytes of the file
 * @left:  of the run that they are in
 * @ended: after a whole run
 */
struct output_reader {
    FILE *file;
    uint64_t end;
    unsigned port;
    unsigned left;
    bool ended;
};

/**
 * struct matcher - of a text, in the bytes of each port (Knuth, Morris, Pratt)
 * @border:  of each beginning of the text, the longest one that it also ends
 *           with, but for itself
 * @matched: of each port, how much of the text its last bytes are
 */
struct matcher {
    const char *text;
    size_t length;
    size_t *border;
    size_t matched[GUEST_OUTPUT_PORTS];
};

void guest_output_head_init(struct guest_output_head *head,
                            const struct recording *r)
{
    *head = (struct guest_output_head) {
        .log_size = GUINT64_TO_LE(r->log.size),
        .begin = GUINT64_TO_LE(r->begin.icount),
    };
    memcpy(head->magic, MAGIC, sizeof(head->magic));
    if (r->log.sha256) {
        memcpy(head->log_sha256, r->log.sha256,
               strnlen(r->log.sha256, sizeof(head->log_sha256)));
    }
}

bool guest_output_there(const struct recording *r)
{
    g_autofree char *path = recording_path(r, RECORDING_OUTPUT);
    struct stat st;

    return !lstat(path, &st);
}

bool guest_output_possible(const struct recording *r, GError **error)
{
    return replay_arguments_ports(r->arguments, true) ||
           refuse(error, "the guest of this recording has no serial port");
}

static bool damaged(const char *path, GError **error)
{
    return agent_fail(error, AGENT_ERROR_PROTOCOL, "%s is damaged, or not of "
                      "this recording; remove it, and try again", path);
}

static bool open_output(struct output_reader *o, const struct recording *r,
                        const char *path, GError **error)
{
    struct guest_output_head head, want;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);

    if (fd < 0 && errno == ENOENT) {
        return refuse(error, "it is not known yet what the guest has written; "
                      "backtrail rr goto finds it out");
    }
    o->file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!o->file) {
        agent_error_errno(error, path);
        btrail_close(fd);
        return false;
    }
    guest_output_head_init(&want, r);
    if (fread(&head, sizeof(head), 1, o->file) != 1) {
        return damaged(path, error);
    }
    o->end = GUINT64_FROM_LE(head.end);
    want.end = head.end;
    return !memcmp(&head, &want, sizeof(head)) || damaged(path, error);
}

/* The next byte, of o->port; false at the end, and where no run begins */
static bool next_byte(struct output_reader *o, char *byte)
{
    int c;

    if (!o->left) {
        unsigned char head[3];

        size_t n = fread(head, 1, sizeof(head), o->file);

        if (n != sizeof(head)) {
            o->ended = !n;
            return false;
        }
        o->port = head[0];
        o->left = head[1] | head[2] << 8;
    }
    c = o->left ? getc_unlocked(o->file) : EOF;
    if (c == EOF) {
        return false;
    }
    o->left--;
    *byte = c;
    return true;
}

static void matcher_init(struct matcher *m, const struct find_place *place)
{
    size_t n = 0;

    m->text = place->name;
    m->length = place->length;
    m->border = g_new0(size_t, m->length);
    for (size_t i = 1; i < m->length; i++) {
        while (n && m->text[n] != m->text[i]) {
            n = m->border[n - 1];
        }
        n += m->text[n] == m->text[i];
        m->border[i] = n;
    }
}

/* Does a text end with this byte? */
static bool matches(struct matcher *m, unsigned port, char byte)
{
    size_t n;

    if (port >= GUEST_OUTPUT_PORTS) {
        return false;
    }
    n = m->matched[port];
    if (n == m->length) {
        n = m->border[n - 1];
    }
    while (n && m->text[n] != byte) {
        n = m->border[n - 1];
    }
    n += m->text[n] == byte;
    m->matched[port] = n;
    return n == m->length;
}

/* The bytes of one write.  Returns how often a text ends there; -1 if there are
 * no such bytes. */
static int64_t read_write(struct output_reader *o, struct matcher *m,
                          uint64_t bytes)
{
    int64_t times = 0;
    unsigned port = 0;
    char byte;

    for (uint64_t i = 0; i < bytes; i++) {
        if (!next_byte(o, &byte) || (i && o->port != port)) {
            o->ended &= !i;
            return -1;
        }
        port = o->port;
        times += matches(m, port, byte);
    }
    return times;
}

/*
 * Reads both files.  A replay of a log that is cut off need not come to its
 * end; and what is logged where a replay has ended, it may or may not have
 * done.
 */
static bool search(struct output_reader *o, FILE *log,
                   const struct recording *r, const struct find_place *place,
                   uint64_t *icount, uint64_t *times, bool *bad)
{
    struct matcher m = { .text = NULL };
    uint64_t at = r->begin.icount;
    struct log_reader reader;
    struct log_event e;

    matcher_init(&m, place);
    log_reader_begin(&reader, log, &r->begin);
    *times = 0;
    while (!*bad && !o->ended && at <= o->end &&
           (place->last || *times < place->number) &&
           log_reader_next(&reader, &e)) {
        at += e.type == LOG_INSTRUCTION ? e.number : 0;
        if (e.type == LOG_CHAR_WRITE && at <= o->end) {
            int64_t n = read_write(o, &m, e.bytes);

            *bad = n < 0 && (!o->ended || at < o->end);
            if (n > 0) {
                *icount = at;
                *times += n;
            }
        }
    }
    g_free(m.border);
    *bad |= reader.bad;
    if (!place->last && *times >= place->number) {
        return !*bad;
    }
    /* All of it was read, so nothing is left. */
    *bad |= o->left || getc_unlocked(o->file) != EOF;
    return !*bad && place->last && *times;
}

bool guest_output_find(const struct recording *r,
                       const struct find_place *place, uint64_t *icount,
                       GError **error)
{
    g_autofree char *path = recording_path(r, RECORDING_OUTPUT);
    g_autofree char *log_path = recording_path(r, r->log.name);
    struct output_reader o = { .file = NULL };
    FILE *log = NULL;
    bool bad = false, found = false, ok;
    uint64_t times = 0;

    ok = guest_output_possible(r, error) && open_output(&o, r, path, error);
    if (ok) {
        log = fopen(log_path, "re");
        ok = log || agent_error_errno(error, log_path);
    }
    if (ok) {
        found = search(&o, log, r, place, icount, &times, &bad);
        ok = found || (bad ? damaged(path, error) :
                       refuse(error, "the guest writes this text %"
                              G_GUINT64_FORMAT " times", times));
    }
    if (log) {
        fclose(log);
    }
    if (o.file) {
        fclose(o.file);
    }
    return ok;
}
