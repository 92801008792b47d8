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
    char *text;
    size_t length;
    size_t *border;
    size_t matched[GUEST_OUTPUT_PORTS];
};

/**
 * struct guest_output
 * @bytes, @log: what was written, and when
 * @at:          instructions up to here
 * @more:        this many more texts end in the last write
 */
struct guest_output {
    char *path;
    struct output_reader bytes;
    FILE *file;
    struct log_reader log;
    struct matcher matcher;
    uint64_t at;
    int64_t more;
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

static void matcher_init(struct matcher *m, const char *text, size_t length)
{
    size_t n = 0;

    m->text = g_memdup2(text, length);
    m->length = length;
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

struct guest_output *guest_output_open(const struct recording *r,
                                       const char *text, size_t length,
                                       GError **error)
{
    g_autofree char *log = recording_path(r, r->log.name);
    struct guest_output *o = g_new0(struct guest_output, 1);

    o->path = recording_path(r, RECORDING_OUTPUT);
    o->at = r->begin.icount;
    matcher_init(&o->matcher, text, length);
    if (guest_output_possible(r, error) &&
        open_output(&o->bytes, r, o->path, error)) {
        o->file = fopen(log, "re");
        if (o->file) {
            log_reader_begin(&o->log, o->file, &r->begin);
            return o;
        }
        agent_error_errno(error, log);
    }
    guest_output_free(o);
    return NULL;
}

void guest_output_free(struct guest_output *o)
{
    if (!o) {
        return;
    }
    if (o->file) {
        fclose(o->file);
    }
    if (o->bytes.file) {
        fclose(o->bytes.file);
    }
    g_free(o->matcher.border);
    g_free(o->matcher.text);
    g_free(o->path);
    g_free(o);
}

/*
 * Reads both files.  A replay of a log that is cut off need not come to its
 * end; and what is logged where a replay has ended, it may or may not have
 * done.
 */
bool guest_output_next(struct guest_output *o, uint64_t *icount,
                       GError **error)
{
    struct output_reader *bytes = &o->bytes;
    bool bad = false;
    struct log_event e;

    while (!o->more && !bytes->ended && o->at <= bytes->end &&
           log_reader_next(&o->log, &e)) {
        o->at += e.type == LOG_INSTRUCTION ? e.number : 0;
        if (e.type == LOG_CHAR_WRITE && o->at <= bytes->end) {
            o->more = read_write(bytes, &o->matcher, e.bytes);
            if (o->more < 0) {
                bad = !bytes->ended || o->at < bytes->end;
                break;
            }
        }
    }
    if (o->more > 0) {
        o->more--;
        *icount = o->at;
        return true;
    }
    /* All of it was read, so nothing is left. */
    if (bad || o->log.bad || bytes->left || getc_unlocked(bytes->file) != EOF) {
        damaged(o->path, error);
    }
    return false;
}

bool guest_output_find(const struct recording *r,
                       const struct find_place *place, uint64_t *icount,
                       GError **error)
{
    struct guest_output *o = guest_output_open(r, place->name, place->length,
                                               error);
    g_autoptr(GError) bad = NULL;
    uint64_t times = 0, at;
    bool found;

    if (!o) {
        return false;
    }
    while ((place->last || times < place->number) &&
           guest_output_next(o, &at, &bad)) {
        *icount = at;
        times++;
    }
    guest_output_free(o);
    found = place->last ? times > 0 : times >= place->number;
    if (bad) {
        g_propagate_error(error, g_steal_pointer(&bad));
        return false;
    }
    return found || refuse(error, "the guest writes this text %"
                           G_GUINT64_FORMAT " times", times);
}
