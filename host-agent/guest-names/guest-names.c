/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: see guest-names.h
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest-names/guest-names.h"
#include "guest-names/name-queue.h"
#include "guest-names/name-snapshot.h"
#include "lib/agent/sideband.h"
#include "util/clock.h"
#include "util/event-fd.h"
#include "util/search.h"

/*
 * Between two rounds, and what is read in one at most, and CPU time for that: a
 * guest can say a lot, and little that takes long.  On a busy host the thread
 * may wait for longer.
 */
#define ROUND_NS        UINT64_C(20000000)
#define ROUND_BYTES     (1u << 20)
#define ROUND_WORK_NS   UINT64_C(5000000)
#define READ_BYTES      (16u << 10)
/* Between two snapshots, and how many files of functions come with one */
#define SNAPSHOT_NS     UINT64_C(500000000)
#define FILES_EACH      64
/* Between two requests for a list, or attempts to begin anew */
#define AGAIN_NS        UINT64_C(1000000000)
/*
 * How long the end waits for the guest's last words, and for more when some have
 * come
 */
#define LAST_NS         UINT64_C(10000000000)
#define SILENT_NS       UINT64_C(2000000000)
/* How long a space that has ended is kept: samples of it can come late. */
#define KEEP_NS         UINT64_C(5000000000)

/* What waits for the thread, of each kind; more is left out */
#define QUEUE_MAX       (1u << 17)
/*
 * Code of a vCPU before its next TIME event; TIME events that are kept, as the
 * code before them can come later
 */
#define CODE_MAX        (1u << 14)
#define TIMES_MAX       (1u << 13)
/* Samples of the same page tables are not needed more often. */
#define SAMPLE_NS       UINT64_C(200000)

/* A TIME event */
struct feed_time {
    uint64_t index;
    uint64_t tsc;
};

/* What the drain knows of a vCPU */
struct feed {
    struct name_queue times;    /* of struct feed_time */
    struct name_queue code;     /* of struct btrail_code_item, not sent yet */
    struct name_sample last;    /* sample */
};

struct guest_words {
    scanner_piece_fn *fn;
    void *opaque;
    struct cpu_limit *limit;
    struct btrail_budget *budget;
    GThread *thread;
    int wake_fd;
    struct feed feeds[BTRAIL_MAX_VCPUS];    /* the drain's */
    int resend;                 /* atomic */
    int closing;                /* atomic */

    GMutex lock;
    /* Under the lock */
    struct name_queue samples;  /* of struct name_sample */
    struct name_queue pages;    /* of struct name_page */
    struct guest_words_result result;

    /* What follows belongs to the thread. */
    int sock;                   /* -1 when the guest is gone */
    struct name_reader *reader; /* NULL before OPEN */
    struct name_spaces *spaces;
    struct name_owners *owners;
    uint64_t opened_at;
    uint64_t up_to;             /* the guest has said all before this TSC */
    uint64_t heard_at;          /* when it said so */
    bool flushed;               /* it has answered the last FLUSH */
    bool pti;
    bool list_due;
    uint64_t listed_at;
    struct name_queue symbols;  /* bytes of those that are being said */
    bool symbols_cut;           /* some of them were left out */
    struct name_queue table;    /* those that were said last */
    bool table_due;             /* they are to be sent */
    guint next_file;            /* the space whose functions come first */
    uint64_t snapshot_at;
};

void guest_words_result_clear(struct guest_words_result *result)
{
    g_free(result->release);
    g_free(result->why);
    memset(result, 0, sizeof(*result));
}

/*
 * For the thread that drains
 */

static void add(struct name_queue *queue, const void *element)
{
    if (queue->len < QUEUE_MAX) {
        name_queue_add(queue, element, 1);
    }
}

/* The time of code is between those of two TIME events around it. */
static void add_code(struct guest_words *w, struct feed *f)
{
    const struct feed_time *times =
        (const struct feed_time *)(void *)f->times.data;
    const struct btrail_code_item *item;
    guint i = 0;

    for (; i < f->code.len; i++) {
        size_t n;

        item = &name_queue_index(&f->code, struct btrail_code_item, i);
        n = BTRAIL_UP_TO(times, f->times.len, struct feed_time, index,
                         item->index);
        if (n == f->times.len) {
            /* The next one is to come. */
            break;
        }
        if (n) {
            const struct name_page page = {
                .from = times[n - 1].tsc, .to = times[n].tsc,
                .root = item->cr3, .address = item->linear,
            };

            add(&w->pages, &page);
        }
    }
    name_queue_forget(&f->code, i);
}

static void add_time(struct guest_words *w, struct feed *f,
                     uint64_t index, const struct name_sample *sample)
{
    const struct feed_time time = { index, sample->tsc };

    if (f->times.len == TIMES_MAX) {
        name_queue_forget(&f->times, TIMES_MAX / 2);
    }
    name_queue_add(&f->times, &time, 1);
    if (sample->root != f->last.root ||
        sample->host - f->last.host >= SAMPLE_NS) {
        add(&w->samples, sample);
        f->last = *sample;
    }
}

void guest_words_slab(struct guest_words *w, unsigned vcpu,
                      const struct btrail_slab *slab)
{
    struct feed *f = &w->feeds[vcpu];
    uint64_t cr3 = slab->cr3;

    g_mutex_lock(&w->lock);
    for (size_t i = 0; i < slab->n_events; i++) {
        const struct btrail_event *e = &slab->events[i];

        if (e->type == BTRAIL_EVENT_CR3) {
            cr3 = e->data[0];
        } else if (e->type == BTRAIL_EVENT_TIME && e->data[1]) {
            const struct name_sample sample = {
                .tsc = e->data[1], .host = e->data[0], .root = cr3,
                .vcpu = vcpu,
            };

            add_time(w, f, e->index, &sample);
        }
    }
    if (f->times.len) {
        add_code(w, f);
    }
    g_mutex_unlock(&w->lock);
}

void guest_words_code(struct guest_words *w, unsigned vcpu,
                      const struct btrail_code_item *item)
{
    struct feed *f = &w->feeds[vcpu];

    if (item->type != BTRAIL_CODE_PAGE || item->linear >> 63) {
        return;
    }
    if (f->code.len < CODE_MAX) {
        name_queue_add(&f->code, item, 1);
    }
}

void guest_words_resend(struct guest_words *w)
{
    __atomic_store_n(&w->resend, 1, __ATOMIC_RELEASE);
    event_fd_set(w->wake_fd);
}

void guest_words_status(struct guest_words *w,
                        struct guest_words_result *result)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&w->lock);

    *result = w->result;
    result->release = g_strdup(w->result.release);
    result->why = g_strdup(w->result.why);
}

/*
 * The thread
 */

/* Takes over @why. */
static void set_why(struct guest_words *w, char *why)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&w->lock);

    g_free(w->result.why);
    w->result.why = why;
}

static void hang_up(struct guest_words *w, char *why)
{
    close(w->sock);
    w->sock = -1;
    set_why(w, why);
}

/* A request has room in any socket's buffer, unless nobody reads. */
static void send_request(struct guest_words *w, uint16_t type,
                         const void *data, uint32_t size)
{
    struct {
        struct btrail_guest_header header;
        uint8_t data[sizeof(struct btrail_guest_open)];
    } request = { .header = { .size = size, .type = type } };
    size_t all = sizeof(request.header) + size;
    ssize_t sent;

    if (w->sock < 0) {
        return;
    }
    if (size) {
        memcpy(request.data, data, size);
    }
    sent = send(w->sock, &request, all, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0 && (size_t)sent < all) {
        hang_up(w, g_strdup("the connection to the guest's "
                            "backtrail-guest-names takes no requests"));
    }
}

/* Begins a conversation. */
static void say_open(struct guest_words *w, uint64_t now)
{
    struct btrail_guest_open open;

    name_reader_free(w->reader);
    w->reader = name_reader_open(&open, BTRAIL_GUEST_WANT_SWITCHES |
                                 BTRAIL_GUEST_WANT_SYMBOLS |
                                 BTRAIL_GUEST_WANT_FUNCTIONS);
    w->opened_at = now;
    send_request(w, BTRAIL_GUEST_OPEN, &open, sizeof(open));
}

static void take_hello(struct guest_words *w, const struct word *word)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&w->lock);

    g_free(w->result.release);
    w->result.release = g_strdup(word->text[0]);
    g_clear_pointer(&w->result.why, g_free);
    w->pti = word->hello.flags & BTRAIL_GUEST_HAS_PTI;
    name_owners_set_pti(w->owners, w->pti);
}

static void send_piece(struct guest_words *w, uint16_t kind,
                       uint64_t time, const void *data, size_t size)
{
    struct btrail_sideband_info info = {
        .kind = kind, .size = (uint32_t)size, .time = time,
    };
    struct scanner_piece piece = { .kind = kind };
    struct btrail_buf packed = { 0 };

    btrail_sideband_pack(&info, data, &packed);
    piece.packed = packed.data;
    piece.packed_size = packed.len;
    w->fn(w->opaque, &piece);
    btrail_buf_free(&packed);
}

/*
 * The symbols that were said last.  A guest can say them again all the time, so
 * they are sent now and then.
 */
static void send_table(struct guest_words *w)
{
    if (w->table_due) {
        w->table_due = false;
        send_piece(w, BTRAIL_SIDEBAND_TOLD_SYMBOLS, clock_ns(),
                   w->table.data, w->table.len);
    }
}

static void take_symbols(struct guest_words *w, const struct word *word)
{
    if (word->symbols.flags & BTRAIL_GUEST_SYMBOLS_BEGIN) {
        name_queue_clear(&w->symbols);
        w->symbols_cut = false;
    }
    /* A part of them would give others' code the names of these. */
    w->symbols_cut |= w->symbols.len + word->size[0] >
                      BTRAIL_GUEST_SYMBOLS_MAX ||
                      !name_queue_add(&w->symbols, word->text[0],
                                      word->size[0]);
    if (w->symbols_cut) {
        name_queue_clear(&w->symbols);
    } else if (word->symbols.flags & BTRAIL_GUEST_SYMBOLS_END) {
        name_queue_clear(&w->table);
        w->table = w->symbols;
        w->symbols = NAME_QUEUE_INIT(w->budget, char);
        w->table_due = w->table.len;
    }
}

static void take_word(void *opaque, const struct word *word)
{
    struct guest_words *w = opaque;

    switch (word->type) {
    case BTRAIL_GUEST_HELLO:
        take_hello(w, word);
        break;
    case BTRAIL_GUEST_SWITCHES:
        name_owners_switches(w->owners, word);
        break;
    case BTRAIL_GUEST_UP_TO:
        w->up_to = word->up_to.time;
        w->heard_at = clock_ns();
        break;
    case BTRAIL_GUEST_FLUSHED:
        w->flushed = true;
        break;
    case BTRAIL_GUEST_SYMBOLS:
        take_symbols(w, word);
        break;
    case BTRAIL_GUEST_LOST:
        w->list_due |= word->lost.what != BTRAIL_GUEST_LOST_SWITCHES;
        break;
    default:
        break;
    }
    name_spaces_take(w->spaces, word);
}

/* Reads what the guest has said, if not too much. */
static void read_words(struct guest_words *w)
{
    g_autofree uint8_t *data = g_malloc(READ_BYTES);
    uint64_t until = clock_cpu_ns() + ROUND_WORK_NS;
    size_t left = ROUND_BYTES;
    ssize_t n = 1;
    char *why;

    while (w->sock >= 0 && left && n > 0 && clock_cpu_ns() < until) {
        n = recv(w->sock, data, MIN(left, READ_BYTES), MSG_DONTWAIT);
        if (!n || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            hang_up(w, w->reader && name_reader_begun(w->reader) ? NULL :
                    g_strdup("the connection to the guest was closed before "
                             "its backtrail-guest-names has said anything"));
        } else if (n > 0) {
            left -= (size_t)n;
            if (w->reader && !name_reader_feed(w->reader, data, (size_t)n,
                                               take_word, w, &why)) {
                set_why(w, why);
                g_clear_pointer(&w->reader, name_reader_free);
            }
        }
    }
}

/* Takes what the drain has reported. */
static void take_reports(struct guest_words *w)
{
    struct name_queue samples, pages;

    g_mutex_lock(&w->lock);
    samples = w->samples;
    w->samples = NAME_QUEUE_INIT(w->budget, struct name_sample);
    pages = w->pages;
    w->pages = NAME_QUEUE_INIT(w->budget, struct name_page);
    g_mutex_unlock(&w->lock);
    for (guint i = 0; i < samples.len; i++) {
        name_owners_sample(w->owners, &name_queue_index(
            &samples, struct name_sample, i));
    }
    for (guint i = 0; i < pages.len; i++) {
        name_owners_page(w->owners, &name_queue_index(
            &pages, struct name_page, i));
    }
    name_queue_clear(&samples);
    name_queue_clear(&pages);
    name_owners_count(w->owners, w->spaces, w->up_to);
}

static void got_snapshot(void *opaque, const void *data, size_t size,
                         uint64_t time)
{
    send_piece(opaque, BTRAIL_SIDEBAND_TOLD_PROCESSES, time, data, size);
}

/* Sends what processes have compiled; at the @end, all of it. */
static void send_functions(struct guest_words *w, bool end)
{
    const GPtrArray *all = name_spaces_all(w->spaces);
    unsigned files = 0;
    guint n = 0;

    for (; n < all->len && (end || files < FILES_EACH); n++) {
        const struct name_space *space = g_ptr_array_index(
            all, (w->next_file + n) % all->len);
        struct name_functions *f = space->functions;
        GByteArray *file;

        if (!f || !space->root ||
            !name_functions_due(f, end || space->end != UINT64_MAX)) {
            continue;
        }
        file = name_functions_file(f);
        f->sent = f->all.len;
        if (file) {
            send_piece(w, BTRAIL_SIDEBAND_DYNAMIC, clock_ns(),
                       file->data, file->len);
            g_byte_array_unref(file);
            files++;
        }
    }
    w->next_file = all->len ? (w->next_file + n) % all->len : 0;
}

static void take_snapshot(struct guest_words *w, bool end)
{
    uint64_t last;
    unsigned named;

    send_table(w);
    if (!w->up_to) {
        return;
    }
    name_owners_decide(w->owners, w->spaces);
    named = name_snapshots(w->spaces, w->owners, w->pti, w->up_to,
                           got_snapshot, w);
    g_mutex_lock(&w->lock);
    w->result.named += named;
    g_mutex_unlock(&w->lock);
    send_functions(w, end);
    name_owners_waiting(w->owners, &last);
    name_spaces_forget(w->spaces, name_owners_before(
        w->owners, MIN(last, w->up_to), KEEP_NS));
}

static void resend(struct guest_words *w)
{
    const GPtrArray *all = name_spaces_all(w->spaces);

    for (guint i = 0; i < all->len; i++) {
        struct name_space *space = g_ptr_array_index(all, i);

        space->changed |= space->end == UINT64_MAX;
        if (space->functions) {
            space->functions->sent = 0;
        }
    }
    w->table_due = w->table.len;
    w->snapshot_at = 0;
}

/* Asks for what is missing, at most once in AGAIN_NS. */
static void ask(struct guest_words *w, uint64_t now)
{
    if (w->sock >= 0 && !w->reader && now - w->opened_at >= AGAIN_NS) {
        say_open(w, now);
    }
    if (w->list_due && now - w->listed_at >= AGAIN_NS) {
        w->list_due = false;
        w->listed_at = now;
        send_request(w, BTRAIL_GUEST_LIST, NULL, 0);
    }
}

static void charge(struct guest_words *w, uint64_t took)
{
    if (w->limit && cpu_limit_holds(w->limit)) {
        cpu_limit_spend_slowly(w->limit, took, clock_ns());
    }
}

/* Waits for the guest, or for @until. */
static void wait_for_words(struct guest_words *w, uint64_t until)
{
    uint64_t now = clock_ns();
    struct pollfd fds[] = {
        { .fd = w->wake_fd, .events = POLLIN },
    };

    /* Words can wait for the next round, which bounds what they take. */
    poll(fds, 1, now < until ? (int)((until - now) / 1000000) + 1 : 0);
    event_fd_clear(w->wake_fd);
}

/* Has the guest said all of what was drained? */
static bool is_complete(struct guest_words *w)
{
    uint64_t last;

    return (!name_owners_waiting(w->owners, &last) && w->flushed) ||
           w->sock < 0;
}

static gpointer words_thread(gpointer opaque)
{
    struct guest_words *w = opaque;
    uint64_t end = 0;

    say_open(w, clock_ns());
    for (;;) {
        uint64_t begin = clock_ns();
        uint64_t took = clock_cpu_ns();
        bool closing = __atomic_load_n(&w->closing, __ATOMIC_ACQUIRE);

        read_words(w);
        take_reports(w);
        ask(w, begin);
        if (__atomic_exchange_n(&w->resend, 0, __ATOMIC_ACQUIRE)) {
            resend(w);
        }
        if (closing && !end) {
            end = begin + LAST_NS;
            w->flushed = false;
            send_request(w, BTRAIL_GUEST_FLUSH, NULL, 0);
        }
        if (closing && (is_complete(w) || begin >= end ||
                        begin > MAX(w->heard_at, end - LAST_NS) + SILENT_NS)) {
            break;
        }
        if (begin >= w->snapshot_at) {
            w->snapshot_at = begin + SNAPSHOT_NS;
            take_snapshot(w, false);
        }
        charge(w, clock_cpu_ns() - took);
        wait_for_words(w, begin + ROUND_NS);
    }
    take_snapshot(w, true);
    send_request(w, BTRAIL_GUEST_CLOSE, NULL, 0);
    return NULL;
}

struct guest_words *
guest_words_new(int sock, struct cpu_limit *limit,
                struct btrail_budget *budget, scanner_piece_fn *fn,
                void *opaque)
{
    struct guest_words *w = g_new0(struct guest_words, 1);

    w->sock = sock;
    w->limit = limit;
    w->fn = fn;
    w->opaque = opaque;
    w->wake_fd = event_fd_new();
    w->budget = btrail_budget_ref(budget);
    w->samples = NAME_QUEUE_INIT(budget, struct name_sample);
    w->pages = NAME_QUEUE_INIT(budget, struct name_page);
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        w->feeds[i].times = NAME_QUEUE_INIT(budget, struct feed_time);
        w->feeds[i].code = NAME_QUEUE_INIT(budget, struct btrail_code_item);
    }
    w->spaces = name_spaces_new(budget);
    w->owners = name_owners_new(budget);
    w->symbols = w->table = NAME_QUEUE_INIT(budget, char);
    w->result.why = g_strdup("backtrail-guest-names does not run in the "
                             "guest, or does not answer");
    g_mutex_init(&w->lock);
    w->thread = g_thread_new("guest-names", words_thread, w);
    return w;
}

void guest_words_finish(struct guest_words *w,
                        struct guest_words_result *result)
{
    __atomic_store_n(&w->closing, 1, __ATOMIC_RELEASE);
    event_fd_set(w->wake_fd);
    g_thread_join(w->thread);

    *result = w->result;
    if (w->sock >= 0) {
        close(w->sock);
    }
    close(w->wake_fd);
    name_reader_free(w->reader);
    name_spaces_free(w->spaces);
    name_owners_free(w->owners);
    name_queue_clear(&w->samples);
    name_queue_clear(&w->pages);
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        name_queue_clear(&w->feeds[i].times);
        name_queue_clear(&w->feeds[i].code);
    }
    name_queue_clear(&w->symbols);
    name_queue_clear(&w->table);
    btrail_budget_unref(w->budget);
    g_mutex_clear(&w->lock);
    g_free(w);
}
