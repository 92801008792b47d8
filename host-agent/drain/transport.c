/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The agent's side of the transport: see transport.h
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drain/transport.h"
#include "util/wait.h"

#define HELLO_FDS   3

/* Larger than 1024 vCPUs with 4 GiB each, small enough not to overflow. */
#define MAX_TOTAL_SIZE  (1ull << 48)

static bool check_failed(GError **error, const char *what)
{
    g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_PROTOCOL,
                "the producer's shared memory has an invalid header: %s",
                what);
    return false;
}

#define CHECK(condition, what)                  \
    do {                                        \
        if (!(condition)) {                     \
            return check_failed(error, what);   \
        }                                       \
    } while (0)

bool btrail_transport_check_header(const struct btrail_shm_header *h,
                                   uint64_t size, GError **error)
{
    CHECK(h->magic == BTRAIL_SHM_MAGIC, "magic");
    CHECK(h->version == BTRAIL_TRANSPORT_VERSION,
          "version; QEMU and backtrail do not match");
    CHECK(h->header_size == sizeof(*h), "header_size");
    CHECK(h->record_size == sizeof(struct btrail_record), "record_size");
    CHECK(h->event_size == sizeof(struct btrail_event), "event_size");
    CHECK(h->total_size == size && size <= MAX_TOTAL_SIZE, "total_size");

    CHECK(h->vcpus >= 1 && h->vcpus <= BTRAIL_MAX_VCPUS, "vcpus");
    CHECK(h->slabs >= BTRAIL_MIN_SLABS && h->slabs <= BTRAIL_MAX_SLABS,
          "slabs");
    CHECK(h->slab_size >= BTRAIL_MIN_SLAB_SIZE &&
          h->slab_size <= BTRAIL_MAX_SLAB_SIZE && h->slab_size % 8 == 0,
          "slab_size");

    /* Each size is at most total_size, so none of these can overflow. */
    CHECK(h->event_offset % 8 == 0 && h->event_offset <= h->slab_size,
          "event_offset");
    CHECK(h->records_per_slab >= 1 &&
          h->records_per_slab <= h->event_offset /
          sizeof(struct btrail_record), "records_per_slab");
    CHECK(h->events_per_slab >= 1 &&
          h->events_per_slab <= (h->slab_size - h->event_offset) /
          sizeof(struct btrail_event), "events_per_slab");

    CHECK(h->vcpu_stride % 64 == 0 && h->vcpu_stride <= size, "vcpu_stride");
    CHECK(h->desc_offset % 8 == 0 &&
          h->desc_offset >= sizeof(struct btrail_shm_vcpu) &&
          h->desc_offset <= h->vcpu_stride, "desc_offset");
    CHECK(h->slab_offset % 8 == 0 && h->slab_offset <= h->vcpu_stride &&
          h->slab_offset >= h->desc_offset +
          h->slabs * sizeof(struct btrail_slab_desc), "slab_offset");
    CHECK((uint64_t)h->slabs * h->slab_size <=
          h->vcpu_stride - h->slab_offset, "vcpu_stride");
    CHECK(h->vcpu_offset % 64 == 0 && h->vcpu_offset >= sizeof(*h) &&
          h->vcpu_offset <= size &&
          h->vcpu_stride * h->vcpus <= size - h->vcpu_offset, "vcpu_offset");

    if (h->code_items) {
        CHECK(h->code_items <= BTRAIL_MAX_CODE_ITEMS, "code_items");
        CHECK(h->code_offset % 64 == 0 && h->code_offset <= h->vcpu_stride &&
              h->code_offset >= h->slab_offset +
              (uint64_t)h->slabs * h->slab_size, "code_offset");
        CHECK(h->code_page_offset % 64 == 0 &&
              h->code_page_offset <= h->vcpu_stride &&
              h->code_page_offset >= h->code_offset +
              sizeof(struct btrail_shm_code) +
              h->code_items * sizeof(struct btrail_code_item) &&
              (uint64_t)h->code_items * BTRAIL_CODE_PAGE_SIZE <=
              h->vcpu_stride - h->code_page_offset, "code_page_offset");
    }

    CHECK(h->producer == BTRAIL_PRODUCER_TCG ||
          h->producer == BTRAIL_PRODUCER_KVM, "producer");
    CHECK(h->policy <= BTRAIL_OVERFLOW_OVERWRITE, "policy");
    CHECK(h->privilege && !(h->privilege & ~(BTRAIL_PRIVILEGE_USER |
                                             BTRAIL_PRIVILEGE_KERNEL)),
          "privilege");
    CHECK(memchr(h->capture, '\0', sizeof(h->capture)) &&
          g_utf8_validate(h->capture, -1, NULL), "capture");
    return true;
}

static bool protocol_error(GError **error, const char *what)
{
    g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_PROTOCOL,
                "the producer broke the protocol: %s", what);
    return false;
}

static bool check_message(const struct btrail_msg *msg, GError **error)
{
    if (msg->magic != BTRAIL_MSG_MAGIC) {
        return protocol_error(error, "this is not a message");
    }
    if (msg->version != BTRAIL_TRANSPORT_VERSION) {
        return protocol_error(error, "unknown version; QEMU and backtrail "
                              "do not match");
    }
    return true;
}

static void close_fds(int *fds, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
            fds[i] = -1;
        }
    }
}

/* Take what file descriptors a message carries, close those too many. */
static bool take_fds(struct msghdr *mh, int *fds, size_t max, size_t *n_fds)
{
    struct cmsghdr *c;
    bool ok = !(mh->msg_flags & MSG_CTRUNC);

    for (c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
        size_t i, n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (*n_fds < max) {
                fds[(*n_fds)++] = fd;
            } else {
                close(fd);
                ok = false;
            }
        }
    }
    return ok;
}

static bool receive_hello(int sock, int timeout_ms, int cancel_fd,
                          struct btrail_msg *hello, int fds[HELLO_FDS],
                          GError **error)
{
    gint64 deadline = timeout_ms < 0 ? -1 :
                      g_get_monotonic_time() + timeout_ms * 1000ll;
    size_t len = 0, n_fds = 0;

    while (len < sizeof(*hello)) {
        union {
            struct cmsghdr align;
            char bytes[CMSG_SPACE(8 * sizeof(int))];
        } control;
        struct iovec iov = { (uint8_t *)hello + len, sizeof(*hello) - len };
        struct msghdr mh = {
            .msg_iov = &iov,
            .msg_iovlen = 1,
            .msg_control = &control,
            .msg_controllen = sizeof(control),
        };
        ssize_t n;

        if (!btrail_wait(sock, POLLIN, deadline, cancel_fd,
                         "the producer did not say hello", error)) {
            return false;
        }
        n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (n < 0 && errno != ECONNRESET) {
            btrail_agent_error_errno(error, "recvmsg");
            return false;
        }
        if (n <= 0) {
            g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_CLOSED,
                        "the producer closed the connection");
            return false;
        }
        if (!take_fds(&mh, fds, HELLO_FDS, &n_fds)) {
            return protocol_error(error, "too many file descriptors");
        }
        len += n;
    }
    if (!check_message(hello, error)) {
        return false;
    }
    if (hello->type != BTRAIL_MSG_HELLO) {
        return protocol_error(error, "unexpected message");
    }
    if (hello->reason >= BTRAIL_AGENT_SLOTS) {
        return protocol_error(error, "HELLO names a tail that is not there");
    }
    return n_fds == HELLO_FDS ||
           protocol_error(error, "HELLO without its file descriptors");
}

/* Nobody must be able to take the memory away below us. */
static bool check_memfd(int fd, uint64_t size, GError **error)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    if (fstat(fd, &st) < 0) {
        btrail_agent_error_errno(error, "fstat");
        return false;
    }
    if (seals < 0 || !(seals & F_SEAL_SHRINK)) {
        return protocol_error(error, "the shared memory is not sealed");
    }
    if ((uint64_t)st.st_size != size || size > MAX_TOTAL_SIZE ||
        size < sizeof(struct btrail_shm_header)) {
        return protocol_error(error, "size of the shared memory");
    }
    return true;
}

static bool set_nonblocking(int fd, GError **error)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        btrail_agent_error_errno(error, "fcntl");
        return false;
    }
    return true;
}

struct btrail_transport *btrail_transport_connect(int sock, int timeout_ms,
                                                  int cancel_fd,
                                                  GError **error)
{
    int fds[HELLO_FDS] = { -1, -1, -1 };
    struct btrail_transport *t;
    struct btrail_shm_header header;
    struct btrail_msg hello;
    uint8_t *map = MAP_FAILED;

    if (!receive_hello(sock, timeout_ms, cancel_fd, &hello, fds, error) ||
        !check_memfd(fds[0], hello.value, error) ||
        !set_nonblocking(fds[1], error) || !set_nonblocking(fds[2], error)) {
        goto fail;
    }
    map = mmap(NULL, hello.value, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0],
               0);
    if (map == MAP_FAILED) {
        btrail_agent_error_errno(error, "cannot map the shared memory");
        goto fail;
    }
    memcpy(&header, map, sizeof(header));
    if (!btrail_transport_check_header(&header, hello.value, error)) {
        goto fail;
    }

    close(fds[0]);
    t = g_new0(struct btrail_transport, 1);
    t->sock = sock;
    t->slot = hello.reason;
    t->ready_fd = fds[1];
    t->free_fd = fds[2];
    t->map = map;
    t->header = header;
    return t;

fail:
    if (map != MAP_FAILED) {
        munmap(map, hello.value);
    }
    close_fds(fds, HELLO_FDS);
    return NULL;
}

void btrail_transport_free(struct btrail_transport *t)
{
    if (t) {
        munmap(t->map, t->header.total_size);
        close(t->ready_fd);
        close(t->free_fd);
        close(t->sock);
        close_fds(t->in_fds, t->n_in_fds);
        btrail_transport_memory_free(t->memory);
        g_free(t);
    }
}

static bool send_message(struct btrail_transport *t, uint16_t type,
                         uint64_t value, GError **error)
{
    struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = type,
        .value = value,
    };
    ssize_t n;

    do {
        n = send(t->sock, &msg, sizeof(msg), MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);

    if (n == sizeof(msg)) {
        return true;
    }
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n < 0) {
        btrail_agent_error_errno(error, "cannot send to the producer");
    } else {
        /* A unix socket takes a small message whole or not at all. */
        g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_SYSTEM,
                    "cannot send to the producer: only %zd bytes went out", n);
    }
    return false;
}

bool btrail_transport_send(struct btrail_transport *t, uint16_t type,
                           GError **error)
{
    return send_message(t, type, 0, error);
}

bool btrail_transport_ready(struct btrail_transport *t, bool memory,
                            GError **error)
{
    t->wants_memory = memory;
    return send_message(t, BTRAIL_MSG_READY, memory ? BTRAIL_READY_MEMORY : 0,
                        error);
}

void btrail_transport_memory_free(struct btrail_transport_memory *m)
{
    if (m) {
        close_fds(m->fds, G_N_ELEMENTS(m->fds));
        g_free(m);
    }
}

struct btrail_transport_memory *
btrail_transport_take_memory(struct btrail_transport *t)
{
    return g_steal_pointer(&t->memory);
}

/* The table, in a memfd: another file could keep us waiting. */
static bool read_table(struct btrail_transport_memory *m, int fd,
                       uint64_t size, size_t files)
{
    struct {
        struct btrail_memory head;
        struct btrail_memory_range ranges[BTRAIL_MEMORY_MAX_RANGES];
    } table;
    uint32_t i;

    if (size < sizeof(table.head) || size > sizeof(table) ||
        fcntl(fd, F_GET_SEALS) < 0 ||
        pread(fd, &table, size, 0) != (ssize_t)size ||
        !table.head.ranges ||
        table.head.ranges > BTRAIL_MEMORY_MAX_RANGES ||
        size != sizeof(table.head) +
        table.head.ranges * sizeof(table.ranges[0]) ||
        table.head.files != files) {
        return false;
    }
    for (i = 0; i < table.head.ranges; i++) {
        if (table.ranges[i].file >= files) {
            return false;
        }
    }
    m->head = table.head;
    memcpy(m->ranges, table.ranges,
           table.head.ranges * sizeof(table.ranges[0]));
    return true;
}

static bool receive_memory(struct btrail_transport *t, GError **error)
{
    struct btrail_transport_memory *m;

    if (!t->wants_memory) {
        return protocol_error(error, "MEMORY that nobody has asked for");
    }
    t->wants_memory = false;
    if (t->in.reason > BTRAIL_MEMORY_FAILED) {
        return protocol_error(error, "unknown reason in MEMORY");
    }
    if (!t->n_in_fds != (t->in.reason != BTRAIL_MEMORY_SHARED)) {
        return protocol_error(error, "MEMORY without its file descriptors");
    }
    m = g_new0(struct btrail_transport_memory, 1);
    memset(m->fds, -1, sizeof(m->fds));
    m->reason = t->in.reason;
    if (!m->reason) {
        size_t files = t->n_in_fds - 1;

        if (!read_table(m, t->in_fds[0], t->in.value, files)) {
            btrail_transport_memory_free(m);
            return protocol_error(error, "the table of the guest's memory");
        }
        memcpy(m->fds, t->in_fds + 1, files * sizeof(int));
        close(t->in_fds[0]);
        t->n_in_fds = 0;
    }
    t->memory = m;
    return true;
}

enum btrail_transport_input
btrail_transport_receive(struct btrail_transport *t, uint16_t *reason,
                         GError **error)
{
    while (t->in_len < sizeof(t->in)) {
        union {
            struct cmsghdr align;
            char bytes[CMSG_SPACE((2 + BTRAIL_MEMORY_MAX_FILES) *
                                  sizeof(int))];
        } control;
        struct iovec iov = { (uint8_t *)&t->in + t->in_len,
                             sizeof(t->in) - t->in_len };
        struct msghdr mh = {
            .msg_iov = &iov,
            .msg_iovlen = 1,
            .msg_control = &control,
            .msg_controllen = sizeof(control),
        };
        ssize_t n = recvmsg(t->sock, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return BTRAIL_TRANSPORT_NOTHING;
        }
        if (n < 0 && errno != ECONNRESET) {
            btrail_agent_error_errno(error, "recv");
            return BTRAIL_TRANSPORT_FAILED;
        }
        if (n <= 0) {
            return BTRAIL_TRANSPORT_CLOSED;
        }
        if (!take_fds(&mh, t->in_fds, G_N_ELEMENTS(t->in_fds),
                      &t->n_in_fds)) {
            protocol_error(error, "too many file descriptors");
            return BTRAIL_TRANSPORT_FAILED;
        }
        t->in_len += n;
    }
    t->in_len = 0;
    if (!check_message(&t->in, error)) {
        return BTRAIL_TRANSPORT_FAILED;
    }
    if (t->in.type == BTRAIL_MSG_MEMORY) {
        return receive_memory(t, error) ? BTRAIL_TRANSPORT_MEMORY :
               BTRAIL_TRANSPORT_FAILED;
    }
    if (t->in.type != BTRAIL_MSG_END || t->n_in_fds) {
        protocol_error(error, "unexpected message");
        return BTRAIL_TRANSPORT_FAILED;
    }
    if (t->in.reason < BTRAIL_END_STOPPED ||
        t->in.reason > BTRAIL_END_UNPLUGGED) {
        protocol_error(error, "unknown reason in END");
        return BTRAIL_TRANSPORT_FAILED;
    }
    *reason = t->in.reason;
    return BTRAIL_TRANSPORT_END;
}

static uint8_t *area(const struct btrail_transport *t, unsigned vcpu)
{
    return t->map + t->header.vcpu_offset + vcpu * t->header.vcpu_stride;
}

static struct btrail_shm_vcpu *control(const struct btrail_transport *t,
                                       unsigned vcpu)
{
    return (struct btrail_shm_vcpu *)area(t, vcpu);
}

uint64_t btrail_transport_head(const struct btrail_transport *t,
                               unsigned vcpu)
{
    return __atomic_load_n(&control(t, vcpu)->head, __ATOMIC_ACQUIRE);
}

uint64_t btrail_transport_tail(const struct btrail_transport *t,
                               unsigned vcpu)
{
    return __atomic_load_n(&control(t, vcpu)->tail[t->slot], __ATOMIC_ACQUIRE);
}

uint32_t btrail_transport_state(const struct btrail_transport *t,
                                unsigned vcpu)
{
    return __atomic_load_n(&control(t, vcpu)->state, __ATOMIC_RELAXED);
}

uint64_t btrail_transport_index(const struct btrail_transport *t,
                                unsigned vcpu)
{
    return __atomic_load_n(&control(t, vcpu)->records, __ATOMIC_RELAXED);
}

uint64_t btrail_transport_lost(const struct btrail_transport *t,
                               unsigned vcpu)
{
    return __atomic_load_n(&control(t, vcpu)->lost, __ATOMIC_RELAXED);
}

uint64_t btrail_transport_paused_ns(const struct btrail_transport *t,
                                    unsigned vcpu)
{
    return __atomic_load_n(&control(t, vcpu)->paused_ns, __ATOMIC_RELAXED);
}

/* A copy of shared memory that the compiler does not read a second time. */
static void copy_once(void *copy, const void *shared, size_t len)
{
    memcpy(copy, shared, len);
    __asm__ volatile("" : : : "memory");
}

bool btrail_transport_slab(const struct btrail_transport *t, unsigned vcpu,
                           uint64_t number, struct btrail_slab *slab,
                           struct btrail_event *events, GError **error)
{
    const struct btrail_shm_header *h = &t->header;
    unsigned slot = number % h->slabs;
    const uint8_t *bytes = area(t, vcpu) + h->slab_offset +
                           (uint64_t)slot * h->slab_size;
    struct btrail_slab_desc desc;

    copy_once(&desc, area(t, vcpu) + h->desc_offset + slot * sizeof(desc),
              sizeof(desc));
    if (desc.records > h->records_per_slab ||
        desc.events > h->events_per_slab) {
        g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_PROTOCOL,
                    "the producer broke the protocol: slab %" G_GUINT64_FORMAT
                    " of vCPU %u claims to hold %u records and %u events",
                    number, vcpu, desc.records, desc.events);
        return false;
    }
    copy_once(events, bytes + h->event_offset,
              desc.events * sizeof(*events));
    *slab = (struct btrail_slab) {
        .first_index = desc.first_index,
        .cr3 = desc.cr3,
        .records = (const struct btrail_record *)bytes,
        .n_records = desc.records,
        .events = events,
        .n_events = desc.events,
    };
    return true;
}

/* If there is no room, there is enough to wake the producer up already. */
static void signal_free(int fd)
{
    uint64_t one = 1;

    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
        continue;
    }
}

static struct btrail_shm_code *code(const struct btrail_transport *t,
                                    unsigned vcpu)
{
    return (struct btrail_shm_code *)(area(t, vcpu) + t->header.code_offset);
}

uint64_t btrail_transport_code_head(const struct btrail_transport *t,
                                    unsigned vcpu)
{
    return __atomic_load_n(&code(t, vcpu)->head, __ATOMIC_ACQUIRE);
}

uint64_t btrail_transport_code_tail(const struct btrail_transport *t,
                                    unsigned vcpu)
{
    return __atomic_load_n(&code(t, vcpu)->tail[t->slot], __ATOMIC_ACQUIRE);
}

uint64_t btrail_transport_code_lost_from(const struct btrail_transport *t,
                                         unsigned vcpu)
{
    return __atomic_load_n(&code(t, vcpu)->lost_from, __ATOMIC_RELAXED);
}

bool btrail_transport_code_item(const struct btrail_transport *t,
                                unsigned vcpu, uint64_t number,
                                struct btrail_code_item *item, uint8_t *page,
                                GError **error)
{
    unsigned slot = number % t->header.code_items;
    const struct btrail_code_item *items =
        (const struct btrail_code_item *)(code(t, vcpu) + 1);

    copy_once(item, &items[slot], sizeof(*item));
    switch (item->type) {
    case BTRAIL_CODE_BYTES:
        copy_once(page, area(t, vcpu) + t->header.code_page_offset +
                  (uint64_t)slot * BTRAIL_CODE_PAGE_SIZE,
                  BTRAIL_CODE_PAGE_SIZE);
        /* fall through */
    case BTRAIL_CODE_PAGE:
        if (item->number) {
            return true;
        }
        break;
    case BTRAIL_CODE_LOST:
        return true;
    default:
        break;
    }
    g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_PROTOCOL,
                "the producer broke the protocol: item %" G_GUINT64_FORMAT
                " of the code of vCPU %u is of type %u, content %"
                G_GUINT64_FORMAT, number, vcpu, item->type, item->number);
    return false;
}

static void wake_producer(struct btrail_transport *t, unsigned vcpu)
{
    uint32_t state;

    /*
     * The producer sets its state and then looks at the tail; we do it the
     * other way round, so at least one of the two sees the other.
     */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    state = btrail_transport_state(t, vcpu);
    if (state == BTRAIL_VCPU_WAITING || state == BTRAIL_VCPU_LOSING) {
        signal_free(t->free_fd);
    }
}

void btrail_transport_release(struct btrail_transport *t, unsigned vcpu,
                              uint64_t tail)
{
    __atomic_store_n(&control(t, vcpu)->tail[t->slot], tail, __ATOMIC_RELEASE);
    wake_producer(t, vcpu);
}

void btrail_transport_code_release(struct btrail_transport *t, unsigned vcpu,
                                   uint64_t tail)
{
    __atomic_store_n(&code(t, vcpu)->tail[t->slot], tail, __ATOMIC_RELEASE);
    wake_producer(t, vcpu);
}

static void set_sleeps(struct btrail_transport *t, uint32_t sleeps)
{
    struct btrail_shm_header *h = (struct btrail_shm_header *)t->map;

    __atomic_store_n(&h->agent_sleeps, sleeps, __ATOMIC_RELEASE);
    /* Heads are looked at only after this is visible. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void btrail_transport_sleep(struct btrail_transport *t)
{
    set_sleeps(t, 1);
}

void btrail_transport_wake(struct btrail_transport *t)
{
    uint64_t count[64];

    set_sleeps(t, 0);
    /* Should there be more, the next sleep is a short one. */
    while (read(t->ready_fd, count, sizeof(count)) < 0 && errno == EINTR) {
        continue;
    }
}
