/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A data connection: see connection.h
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drain/connection.h"
#include "util/wait.h"

#define HELLO_FDS   3

/* Larger than 1024 vCPUs with 4 GiB each, small enough not to overflow. */
#define MAX_TOTAL_SIZE  (1ull << 48)

static bool check_failed(GError **error, const char *what)
{
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
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

bool drain_connection_check_header(const struct btrail_shm_header *h,
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
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
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
    for (size_t i = 0; i < n; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
            fds[i] = -1;
        }
    }
}

/* Takes the file descriptors of a message; closes those beyond @max. */
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

/*
 * Receives what is missing of a message, at most: its first @len bytes are in
 * @msg, and @n_fds of its descriptors in @fds.  Returns how many bytes came, 0
 * if the producer has closed the connection, -EAGAIN if nothing is there yet,
 * and another negative value, with @error set, on failure.
 */
static ssize_t receive_some(int sock, struct btrail_msg *msg, size_t len,
                            int *fds, size_t max, size_t *n_fds,
                            GError **error)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE((2 + BTRAIL_MEMORY_MAX_FILES) * sizeof(int))];
    } control;
    struct iovec iov = { (uint8_t *)msg + len, sizeof(*msg) - len };
    struct msghdr mh = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    ssize_t n;

    do {
        n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == ECONNRESET)) {
        return errno == EAGAIN ? -EAGAIN : 0;
    }
    if (n < 0) {
        agent_error_errno(error, "recvmsg");
    } else if (n && !take_fds(&mh, fds, max, n_fds)) {
        protocol_error(error, "too many file descriptors");
        n = -EPROTO;
    }
    return n;
}

static bool receive_hello(int sock, int timeout_ms, int cancel_fd,
                          struct btrail_msg *hello, int fds[HELLO_FDS],
                          GError **error)
{
    gint64 deadline = timeout_ms < 0 ? -1 :
                      g_get_monotonic_time() + timeout_ms * 1000ll;
    size_t len = 0, n_fds = 0;

    while (len < sizeof(*hello)) {
        ssize_t n;

        if (!wait_for_fd(sock, POLLIN, deadline, cancel_fd,
                         "the producer did not say hello", error)) {
            return false;
        }
        n = receive_some(sock, hello, len, fds, HELLO_FDS, &n_fds, error);
        if (n == -EAGAIN) {
            continue;
        }
        if (!n) {
            g_set_error(error, AGENT_ERROR, AGENT_ERROR_CLOSED,
                        "the producer closed the connection");
        }
        if (n <= 0) {
            return false;
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
        return protocol_error(error, "HELLO names a tail that does not exist");
    }
    return n_fds == HELLO_FDS ||
           protocol_error(error, "HELLO without its file descriptors");
}

/* Checks that no process can truncate the memory under our mapping. */
static bool check_memfd(int fd, uint64_t size, GError **error)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    if (fstat(fd, &st) < 0) {
        return agent_error_errno(error, "fstat");
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
        return agent_error_errno(error, "fcntl");
    }
    return true;
}

struct drain_connection *drain_connection_accept(int sock, int timeout_ms,
                                                 int cancel_fd,
                                                 GError **error)
{
    int fds[HELLO_FDS] = { -1, -1, -1 };
    struct drain_connection *conn;
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
        agent_error_errno(error, "cannot map the shared memory");
        goto fail;
    }
    memcpy(&header, map, sizeof(header));
    if (!drain_connection_check_header(&header, hello.value, error)) {
        goto fail;
    }

    close(fds[0]);
    conn = g_new0(struct drain_connection, 1);
    conn->sock = sock;
    conn->slot = hello.reason;
    conn->ready_fd = fds[1];
    conn->free_fd = fds[2];
    conn->map = map;
    conn->header = header;
    return conn;

fail:
    if (map != MAP_FAILED) {
        munmap(map, hello.value);
    }
    close_fds(fds, HELLO_FDS);
    return NULL;
}

void drain_connection_free(struct drain_connection *conn)
{
    if (conn) {
        munmap(conn->map, conn->header.total_size);
        close(conn->ready_fd);
        close(conn->free_fd);
        close(conn->sock);
        close_fds(conn->in_fds, conn->n_in_fds);
        guest_memory_files_free(conn->memory);
        g_free(conn);
    }
}

/* Sends a message, and @size bytes after it. */
static bool send_with(struct drain_connection *conn, uint16_t type,
                      uint64_t value, const void *data, size_t size,
                      GError **error)
{
    struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = type,
        .value = value,
    };
    struct iovec iov[] = {
        { &msg, sizeof(msg) },
        { (void *)data, size },
    };
    struct msghdr mh = { .msg_iov = iov, .msg_iovlen = G_N_ELEMENTS(iov) };
    ssize_t n;

    do {
        n = sendmsg(conn->sock, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);

    if (n == (ssize_t)(sizeof(msg) + size)) {
        return true;
    }
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n < 0) {
        agent_error_errno(error, "cannot send to the producer");
    } else {
        /* A unix socket takes a small message whole or not at all. */
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM,
                    "cannot send to the producer: only %zd bytes went out", n);
    }
    return false;
}

static bool send_to_producer(struct drain_connection *conn, uint16_t type,
                             uint64_t value, GError **error)
{
    return send_with(conn, type, value, NULL, 0, error);
}

bool drain_connection_send_tasks(struct drain_connection *conn,
                                 const struct btrail_tasks *tasks, unsigned n,
                                 GError **error)
{
    uint32_t accepts = conn->header.accepts;
    size_t size = btrail_tasks_size(accepts);
    char bytes[BTRAIL_TASKS_MAX * sizeof(*tasks)];

    n = accepts & BTRAIL_ACCEPTS_NESTED ? MIN(n, BTRAIL_TASKS_MAX) : 1;
    for (unsigned i = 0; i < n; i++) {
        memcpy(bytes + i * size, &tasks[i], size);
    }
    return send_with(conn, BTRAIL_MSG_TASKS, n * size, bytes, n * size, error);
}

bool drain_connection_send(struct drain_connection *conn, uint16_t type,
                           GError **error)
{
    return send_to_producer(conn, type, 0, error);
}

bool drain_connection_ready(struct drain_connection *conn, uint64_t flags,
                            GError **error)
{
    conn->wants_memory = flags & BTRAIL_READY_MEMORY;
    return send_to_producer(conn, BTRAIL_MSG_READY, flags, error);
}

bool drain_connection_want_memory(struct drain_connection *conn,
                                  GError **error)
{
    if (!conn->wants_memory) {
        conn->wants_memory = send_to_producer(conn, BTRAIL_MSG_MEMORY, 0,
                                              error);
    }
    return conn->wants_memory;
}

struct guest_memory_files *
drain_connection_take_memory(struct drain_connection *conn)
{
    return g_steal_pointer(&conn->memory);
}

/* Reads the table.  It must be in a memfd: another file could block us. */
static bool read_memory_table(struct guest_memory_files *m, int fd,
                              uint64_t size, size_t files)
{
    struct {
        struct btrail_memory head;
        struct btrail_memory_range ranges[BTRAIL_MEMORY_MAX_RANGES];
    } table;

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
    for (uint32_t i = 0; i < table.head.ranges; i++) {
        if (table.ranges[i].file >= files) {
            return false;
        }
    }
    m->head = table.head;
    memcpy(m->ranges, table.ranges,
           table.head.ranges * sizeof(table.ranges[0]));
    return true;
}

static bool receive_memory(struct drain_connection *conn, GError **error)
{
    struct guest_memory_files *m;

    if (!conn->wants_memory) {
        return protocol_error(error, "MEMORY without a request for it");
    }
    conn->wants_memory = false;
    if (conn->in.reason > BTRAIL_MEMORY_FAILED) {
        return protocol_error(error, "unknown reason in MEMORY");
    }
    if (!conn->n_in_fds != (conn->in.reason != BTRAIL_MEMORY_SHARED)) {
        return protocol_error(error, "MEMORY without its file descriptors");
    }
    m = g_new0(struct guest_memory_files, 1);
    memset(m->fds, -1, sizeof(m->fds));
    m->reason = conn->in.reason;
    if (!m->reason) {
        size_t files = conn->n_in_fds - 1;

        if (!read_memory_table(m, conn->in_fds[0], conn->in.value, files)) {
            guest_memory_files_free(m);
            return protocol_error(error, "the table of the guest's memory");
        }
        memcpy(m->fds, conn->in_fds + 1, files * sizeof(int));
        close(conn->in_fds[0]);
        conn->n_in_fds = 0;
    }
    guest_memory_files_free(conn->memory);
    conn->memory = m;
    return true;
}

enum drain_connection_input
drain_connection_receive(struct drain_connection *conn, uint16_t *reason,
                         GError **error)
{
    while (conn->in_len < sizeof(conn->in)) {
        ssize_t n = receive_some(conn->sock, &conn->in, conn->in_len,
                                 conn->in_fds, G_N_ELEMENTS(conn->in_fds),
                                 &conn->n_in_fds, error);

        if (n <= 0) {
            return n == -EAGAIN ? DRAIN_CONNECTION_NOTHING :
                   n ? DRAIN_CONNECTION_FAILED : DRAIN_CONNECTION_CLOSED;
        }
        conn->in_len += n;
    }
    conn->in_len = 0;
    if (!check_message(&conn->in, error)) {
        return DRAIN_CONNECTION_FAILED;
    }
    if (conn->in.type == BTRAIL_MSG_MEMORY) {
        return receive_memory(conn, error) ? DRAIN_CONNECTION_MEMORY :
               DRAIN_CONNECTION_FAILED;
    }
    if (conn->in.type != BTRAIL_MSG_END || conn->n_in_fds) {
        protocol_error(error, "unexpected message");
        return DRAIN_CONNECTION_FAILED;
    }
    if (conn->in.reason < BTRAIL_END_STOPPED ||
        conn->in.reason > BTRAIL_END_UNPLUGGED) {
        protocol_error(error, "unknown reason in END");
        return DRAIN_CONNECTION_FAILED;
    }
    *reason = conn->in.reason;
    return DRAIN_CONNECTION_END;
}

static uint8_t *area(const struct drain_connection *conn, unsigned vcpu)
{
    return (uint8_t *)drain_connection_vcpu(conn, vcpu);
}

/* Copies shared memory so that the compiler cannot read it a second time. */
static void copy_once(void *copy, const void *shared, size_t len)
{
    memcpy(copy, shared, len);
    __asm__ volatile("" : : : "memory");
}

bool drain_connection_slab(const struct drain_connection *conn, unsigned vcpu,
                           uint64_t number, struct btrail_slab *slab,
                           struct btrail_event *events, GError **error)
{
    const struct btrail_shm_header *h = &conn->header;
    unsigned slot = number % h->slabs;
    const uint8_t *bytes = area(conn, vcpu) + h->slab_offset +
                           (uint64_t)slot * h->slab_size;
    struct btrail_slab_desc desc;

    copy_once(&desc, area(conn, vcpu) + h->desc_offset + slot * sizeof(desc),
              sizeof(desc));
    if (desc.records > h->records_per_slab ||
        desc.events > h->events_per_slab) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
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

/* Wakes the producer; a full counter is enough to do so already. */
static void signal_free(int fd)
{
    uint64_t one = 1;

    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
        continue;
    }
}

bool drain_connection_code_item(const struct drain_connection *conn,
                                unsigned vcpu, uint64_t number,
                                struct btrail_code_item *item, uint8_t *page,
                                GError **error)
{
    unsigned slot = number % conn->header.code_items;
    const struct btrail_code_item *items =
        (const void *)(drain_connection_code(conn, vcpu) + 1);

    copy_once(item, &items[slot], sizeof(*item));
    switch (item->type) {
    case BTRAIL_CODE_BYTES:
        copy_once(page, area(conn, vcpu) + conn->header.code_page_offset +
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
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                "the producer broke the protocol: item %" G_GUINT64_FORMAT
                " of the code of vCPU %u is of type %u, content %"
                G_GUINT64_FORMAT, number, vcpu, item->type, item->number);
    return false;
}

static void wake_producer(struct drain_connection *conn, unsigned vcpu)
{
    uint32_t state;

    /*
     * The producer sets its state and then reads the tail.  The agent does
     * the reverse, so at least one of the two sees the other's store.
     */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    state = drain_connection_state(conn, vcpu);
    if (state == BTRAIL_VCPU_WAITING || state == BTRAIL_VCPU_LOSING) {
        signal_free(conn->free_fd);
    }
}

void drain_connection_release(struct drain_connection *conn, unsigned vcpu,
                              uint64_t tail)
{
    __atomic_store_n(&drain_connection_vcpu(conn, vcpu)->tail[conn->slot],
                     tail, __ATOMIC_RELEASE);
    wake_producer(conn, vcpu);
}

void drain_connection_code_release(struct drain_connection *conn,
                                   unsigned vcpu, uint64_t tail)
{
    __atomic_store_n(&drain_connection_code(conn, vcpu)->tail[conn->slot],
                     tail, __ATOMIC_RELEASE);
    wake_producer(conn, vcpu);
}

static void set_sleeps(struct drain_connection *conn, uint32_t sleeps)
{
    struct btrail_shm_header *h = (struct btrail_shm_header *)conn->map;

    __atomic_store_n(&h->agent_sleeps, sleeps, __ATOMIC_RELEASE);
    /* Heads must be read only after this store is visible. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void drain_connection_sleep(struct drain_connection *conn)
{
    set_sleeps(conn, 1);
}

void drain_connection_wake(struct drain_connection *conn)
{
    uint64_t count[64];

    set_sleeps(conn, 0);
    /* If the counter is not empty yet, the next sleep is short. */
    while (read(conn->ready_fd, count, sizeof(count)) < 0 && errno == EINTR) {
        continue;
    }
}
