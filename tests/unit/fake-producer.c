/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A producer for tests: see fake-producer.h
 */

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake-producer.h"

#define WAIT_MS     20000

void fake_init(struct fake_producer *f, unsigned vcpus, unsigned slabs,
               uint32_t policy)
{
    fake_init_code(f, vcpus, slabs, policy, 0);
}

void fake_init_code(struct fake_producer *f, unsigned vcpus, unsigned slabs,
                    uint32_t policy, uint32_t code_items)
{
    struct btrail_shm_header h = {
        .magic = BTRAIL_SHM_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .header_size = sizeof(h),
        .vcpu_offset = 4096,
        .desc_offset = 128,
        .slab_offset = 128 + slabs * sizeof(struct btrail_slab_desc),
        .vcpus = vcpus,
        .slabs = slabs,
        .slab_size = BTRAIL_MIN_SLAB_SIZE,
        .records_per_slab = FAKE_RECORDS,
        .event_offset = FAKE_RECORDS * sizeof(struct btrail_record),
        .events_per_slab = FAKE_EVENTS,
        .record_size = sizeof(struct btrail_record),
        .event_size = sizeof(struct btrail_event),
        .producer = BTRAIL_PRODUCER_TCG,
        .policy = policy,
        .privilege = BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL,
        .tick_ns = 1000000,
        .start_monotonic = 1000,
        .start_realtime = 2000,
        .capture = "fake",
    };
    int socks[2];

    f->record = NULL;
    h.vcpu_stride = (h.slab_offset + (uint64_t)slabs * h.slab_size + 63) &
                    ~63ull;
    if (code_items) {
        h.code_items = code_items;
        h.code_offset = h.vcpu_stride;
        h.code_page_offset = h.code_offset + sizeof(struct btrail_shm_code) +
                             code_items * sizeof(struct btrail_code_item);
        h.vcpu_stride = h.code_page_offset +
                        code_items * BTRAIL_CODE_PAGE_SIZE;
    }
    h.total_size = h.vcpu_offset + vcpus * h.vcpu_stride;
    f->total_size = h.total_size;
    f->memfd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    g_assert_cmpint(f->memfd, >=, 0);
    g_assert_cmpint(ftruncate(f->memfd, h.total_size), ==, 0);
    g_assert_cmpint(fcntl(f->memfd, F_ADD_SEALS,
                          F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), ==, 0);
    f->header = mmap(NULL, h.total_size, PROT_READ | PROT_WRITE, MAP_SHARED,
                     f->memfd, 0);
    g_assert_true(f->header != MAP_FAILED);
    *f->header = h;
    while (code_items && vcpus--) {
        fake_code(f, vcpus)->lost_from = BTRAIL_CODE_NONE_LOST;
    }
    f->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    f->free_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks),
                    ==, 0);
    f->sock = socks[0];
    f->agent_sock = socks[1];
}

void fake_clear(struct fake_producer *f)
{
    fake_close(f);
    munmap(f->header, f->total_size);
    close(f->memfd);
    close(f->ready_fd);
    close(f->free_fd);
}

static uint8_t *area(struct fake_producer *f, unsigned vcpu)
{
    return (uint8_t *)f->header + f->header->vcpu_offset +
           vcpu * f->header->vcpu_stride;
}

struct btrail_shm_vcpu *fake_vcpu(struct fake_producer *f, unsigned vcpu)
{
    return (struct btrail_shm_vcpu *)area(f, vcpu);
}

struct btrail_slab_desc *fake_desc(struct fake_producer *f, unsigned vcpu,
                                   uint64_t number)
{
    return (struct btrail_slab_desc *)(area(f, vcpu) +
                                       f->header->desc_offset) +
           number % f->header->slabs;
}

struct btrail_record *fake_records(struct fake_producer *f, unsigned vcpu,
                                   uint64_t number)
{
    return (struct btrail_record *)(area(f, vcpu) + f->header->slab_offset +
                                    number % f->header->slabs *
                                    f->header->slab_size);
}

struct btrail_event *fake_events(struct fake_producer *f, unsigned vcpu,
                                 uint64_t number)
{
    return (struct btrail_event *)((uint8_t *)fake_records(f, vcpu, number) +
                                   f->header->event_offset);
}

void fake_send(struct fake_producer *f, const void *bytes, size_t len,
               const int *fds, unsigned n_fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control = { 0 };
    struct iovec iov = { (void *)bytes, len };
    struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (n_fds) {
        struct cmsghdr *c;

        mh.msg_control = &control;
        mh.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        c = CMSG_FIRSTHDR(&mh);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    g_assert_cmpint(sendmsg(f->sock, &mh, MSG_NOSIGNAL), ==, len);
}

void fake_hello(struct fake_producer *f)
{
    struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_HELLO,
        .value = f->total_size,
    };
    int fds[] = { f->memfd, f->ready_fd, f->free_fd };

    fake_send(f, &msg, sizeof(msg), fds, 3);
}

void fake_end(struct fake_producer *f, uint16_t reason)
{
    struct btrail_msg msg = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_END,
        .reason = reason,
    };

    fake_send(f, &msg, sizeof(msg), NULL, 0);
}

void fake_close(struct fake_producer *f)
{
    if (f->sock >= 0) {
        close(f->sock);
        f->sock = -1;
    }
}

bool fake_hear(struct fake_producer *f, uint16_t type)
{
    struct pollfd pfd = { .fd = f->sock, .events = POLLIN };
    struct btrail_msg msg;

    g_assert_cmpint(poll(&pfd, 1, WAIT_MS), ==, 1);
    g_assert_cmpint(recv(f->sock, &msg, sizeof(msg), MSG_WAITALL), ==,
                    sizeof(msg));
    g_assert_cmphex(msg.magic, ==, BTRAIL_MSG_MAGIC);
    g_assert_cmpint(msg.version, ==, BTRAIL_TRANSPORT_VERSION);
    g_assert_cmpint(msg.value, ==, 0);
    if (msg.type == type) {
        return true;
    }
    g_assert_true(msg.type == BTRAIL_MSG_FLUSH ||
                  msg.type == BTRAIL_MSG_RESEND_CODE);
    return false;
}

void fake_expect(struct fake_producer *f, uint16_t type)
{
    while (!fake_hear(f, type)) {
    }
}

void fake_wait_free(struct fake_producer *f, unsigned vcpu)
{
    struct btrail_shm_vcpu *v = fake_vcpu(f, vcpu);
    gint64 deadline = g_get_monotonic_time() + WAIT_MS * 1000;
    struct pollfd pfd = { .fd = f->free_fd, .events = POLLIN };
    uint64_t count;

    while (v->head - __atomic_load_n(&v->tail[0], __ATOMIC_ACQUIRE) >=
           f->header->slabs) {
        __atomic_store_n(&v->state, BTRAIL_VCPU_WAITING, __ATOMIC_SEQ_CST);
        if (v->head - __atomic_load_n(&v->tail[0], __ATOMIC_SEQ_CST) <
            f->header->slabs) {
            break;
        }
        /* Only the eventfd may end this wait. */
        g_assert_cmpint(poll(&pfd, 1, WAIT_MS), ==, 1);
        g_assert_cmpint(read(f->free_fd, &count, sizeof(count)), ==,
                        sizeof(count));
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
    }
    __atomic_store_n(&v->state, BTRAIL_VCPU_RUNNING, __ATOMIC_SEQ_CST);
}

struct btrail_shm_code *fake_code(struct fake_producer *f, unsigned vcpu)
{
    return (struct btrail_shm_code *)(area(f, vcpu) + f->header->code_offset);
}

static void advance(struct fake_producer *f, uint64_t *head)
{
    uint64_t one = 1;

    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&f->header->agent_sleeps, __ATOMIC_RELAXED)) {
        g_assert_cmpint(write(f->ready_fd, &one, sizeof(one)), ==,
                        sizeof(one));
    }
}

void fake_publish_code(struct fake_producer *f, unsigned vcpu,
                       const struct btrail_code_item *item, uint8_t fill)
{
    struct btrail_shm_code *c = fake_code(f, vcpu);
    uint32_t slot = c->head % f->header->code_items;
    gint64 deadline = g_get_monotonic_time() + WAIT_MS * 1000;

    while (c->head - __atomic_load_n(&c->tail[0], __ATOMIC_ACQUIRE) >=
           f->header->code_items) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        g_usleep(1000);
    }
    ((struct btrail_code_item *)(c + 1))[slot] = *item;
    memset(area(f, vcpu) + f->header->code_page_offset +
           slot * BTRAIL_CODE_PAGE_SIZE, fill, BTRAIL_CODE_PAGE_SIZE);
    advance(f, &c->head);
}

static void publish(struct fake_producer *f, unsigned vcpu)
{
    advance(f, &fake_vcpu(f, vcpu)->head);
}

void fake_publish(struct fake_producer *f, unsigned vcpu,
                  uint64_t first_index, unsigned n,
                  const struct btrail_event *events, unsigned n_events)
{
    struct btrail_shm_vcpu *v = fake_vcpu(f, vcpu);
    struct btrail_event *e = fake_events(f, vcpu, v->head);
    struct btrail_record *r = fake_records(f, vcpu, v->head);
    unsigned i;

    for (i = 0; i < n; i++) {
        r[i].from = first_index + i;
        r[i].to = ~(first_index + i);
        r[i].flags = 0;
        if (f->record) {
            f->record(first_index + i, &r[i]);
        }
    }
    *e = (struct btrail_event) {
        .index = first_index,
        .type = BTRAIL_EVENT_TIME,
        .data = { 2000 + first_index, first_index, BTRAIL_NO_ICOUNT },
    };
    for (i = 0; i < n_events; i++) {
        e[i + 1] = events[i];
    }
    *fake_desc(f, vcpu, v->head) = (struct btrail_slab_desc) {
        .first_index = first_index,
        .cr3 = 0x1000,
        .records = n,
        .events = n_events + 1,
    };
    if (v->state == BTRAIL_VCPU_ABSENT) {
        v->state = BTRAIL_VCPU_RUNNING;
    }
    publish(f, vcpu);
}

void fake_flushed(struct fake_producer *f, unsigned vcpu)
{
    __atomic_store_n(&fake_vcpu(f, vcpu)->flushed,
                     g_get_monotonic_time() * 1000, __ATOMIC_RELEASE);
}

void fake_publish_end(struct fake_producer *f, unsigned vcpu, uint64_t index)
{
    struct btrail_shm_vcpu *v = fake_vcpu(f, vcpu);

    *fake_events(f, vcpu, v->head) = (struct btrail_event) {
        .index = index,
        .type = BTRAIL_EVENT_END,
        .reason = BTRAIL_END_STOPPED,
    };
    *fake_desc(f, vcpu, v->head) = (struct btrail_slab_desc) {
        .first_index = index,
        .cr3 = 0x1000,
        .events = 1,
    };
    v->state = BTRAIL_VCPU_ENDED;
    publish(f, vcpu);
}
