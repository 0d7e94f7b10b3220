using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Channels;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Http.Connections.Features;
using Microsoft.AspNetCore.SignalR;

// The connections that the hubs have accepted.
public sealed class Connections
{
    readonly ConcurrentDictionary<string, HubCallerContext> live = new ConcurrentDictionary<string, HubCallerContext>();

    public void Add(HubCallerContext context) => live[context.ConnectionId] = context;

    public void Remove(HubCallerContext context) => live.TryRemove(context.ConnectionId, out _);

    public object Live => live.Values.Select(context => new { id = context.ConnectionId, user = context.UserIdentifier });

    // Ends the connection with an ID, or all of them, and returns their number.
    public int Abort(string id)
    {
        var chosen = live.Values.Where(context => id == null || context.ConnectionId == id).ToList();
        foreach (var context in chosen) context.Abort();
        return chosen.Count;
    }
}

// Counts the streams of TestHub.Counter.
public sealed class StreamCounts
{
    int started, cancelled, finished;

    public void Start() => Interlocked.Increment(ref started);

    public void Cancel() => Interlocked.Increment(ref cancelled);

    public void Finish() => Interlocked.Increment(ref finished);

    public Dictionary<string, int> Counts =>
        new Dictionary<string, int> { ["started"] = started, ["cancelled"] = cancelled, ["finished"] = finished };
}

public enum Color { Red, Green, Blue }

// MessagePack uses the names of the properties unchanged: in lower case, they are the same in both formats.
public sealed class Person
{
    public string name { get; set; }
    public int age { get; set; }
    public List<string> tags { get; set; }
}

// Never pings its clients.
public sealed class QuietHub : TestHub
{
    public QuietHub(Connections connections, StreamCounts streams) : base(connections, streams) { }
}

// Has short limits.
public sealed class StrictHub : TestHub
{
    public StrictHub(Connections connections, StreamCounts streams) : base(connections, streams) { }
}

public class TestHub : Hub
{
    readonly Connections connections;
    readonly StreamCounts streams;

    public TestHub(Connections connections, StreamCounts streams)
    {
        this.connections = connections;
        this.streams = streams;
    }

    public override Task OnConnectedAsync()
    {
        connections.Add(Context);
        return Task.CompletedTask;
    }

    public override Task OnDisconnectedAsync(Exception exception)
    {
        connections.Remove(Context);
        return Task.CompletedTask;
    }

    // Values

    public int Add(int a, int b) => a + b;
    public object EchoAny(object value) => value;
    public bool EchoBool(bool value) => value;
    public byte[] EchoBytes(byte[] value) => value;
    public DateTime EchoDate(DateTime value) => value;
    public double EchoDouble(double value) => value;
    public Color EchoEnum(Color value) => value;
    public Guid EchoGuid(Guid value) => value;
    public List<int?> EchoList(List<int?> value) => value;
    public long EchoLong(long value) => value;
    public Dictionary<string, double> EchoMap(Dictionary<string, double> value) => value;
    public DateTimeOffset EchoOffset(DateTimeOffset value) => value;
    public Person EchoPerson(Person value) => value;
    public string EchoText(string value) => value;
    public ulong EchoUnsigned(ulong value) => value;
    public string Text(int length) => new string('x', length);
    public byte[] Bytes(int length) => Enumerable.Range(0, length).Select(number => (byte)number).ToArray();

    // Methods

    public object Invoke(string text, object value) => value;

    public void InvokeWithoutReturn(string text) { }

    [HubMethodName("named-method")]
    public string Named() => "named";

    // The server has a token only for methods that return a stream, so this one expects two arguments.
    public string Optional(string text, CancellationToken token) => text;

    public async Task<string> Slow(int milliseconds)
    {
        await Task.Delay(milliseconds, Context.ConnectionAborted);
        return "slow";
    }

    public int Boom(string message) => throw new HubException(message);

    public int Crash(string message) => throw new InvalidOperationException(message);

    // The connection

    public string ConnId() => Context.ConnectionId;

    public string Transport() => Context.Features.Get<IHttpTransportFeature>().TransportType.ToString();

    public string WhoAmI() => Context.UserIdentifier;

    public string Query(string name) => Context.GetHttpContext().Request.Query[name];

    public void AbortMe() => Context.Abort();

    // Closes the socket without a close message.
    public void CutMe() => Context.GetHttpContext().Abort();

    // Streams from the server

    public ChannelReader<string> Stream(CancellationToken token) => Produce<string>(async writer =>
    {
        foreach (var text in new[] { "a", "b", "c" }) await writer.WriteAsync(text, token);
    });

    public ChannelReader<int> Counter(int count, int milliseconds, CancellationToken token) => Produce<int>(async writer =>
    {
        streams.Start();
        try
        {
            for (var number = 0; number < count; number++)
            {
                await writer.WriteAsync(number, token);
                if (milliseconds > 0) await Task.Delay(milliseconds, token);
            }
            streams.Finish();
        }
        catch (OperationCanceledException)
        {
            streams.Cancel();
        }
    });

    public ChannelReader<int> FailingStream(int count, string message, CancellationToken token) => Produce<int>(async writer =>
    {
        for (var number = 0; number < count; number++) await writer.WriteAsync(number, token);
        throw new HubException(message);
    });

    public Dictionary<string, int> StreamCounts() => streams.Counts;

    // Streams from the client

    public Task<int> Sum(ChannelReader<int> numbers) => AddNumbers(0, numbers);

    public async Task<int> AddNumbers(int start, ChannelReader<int> numbers)
    {
        var sum = start;
        await ForEach(numbers, number => sum += number);
        return sum;
    }

    public async Task<int[]> Both(ChannelReader<int> first, ChannelReader<int> second) => new[] { await Sum(first), await Sum(second) };

    public async Task<string> Join(string separator, ChannelReader<string> texts)
    {
        var all = new List<string>();
        await ForEach(texts, all.Add);
        return string.Join(separator, all);
    }

    // Returns before the end of the stream.
    public async Task<int> TakeFew(int count, ChannelReader<int> numbers)
    {
        for (var taken = 0; taken < count; taken++) await numbers.ReadAsync();
        return count;
    }

    // The number of items before the error, and its message.
    public async Task<string> UploadError(ChannelReader<int> numbers)
    {
        var count = 0;
        try
        {
            await ForEach(numbers, number => count++);
            return $"{count} without an error";
        }
        catch (Exception error)
        {
            return $"{count} {error.Message}";
        }
    }

    // Streams in both directions

    // The number of items so far, from a start.
    public ChannelReader<int> Count(int start, ChannelReader<int> numbers, CancellationToken token) => Produce<int>(async writer =>
    {
        while (await numbers.WaitToReadAsync(token))
        {
            await numbers.ReadAsync(token);
            await writer.WriteAsync(++start, token);
        }
    });

    public ChannelReader<string> EchoStream(ChannelReader<string> texts) => texts;

    // Calls of the client

    public Task Echo(string text, object value) => Clients.Caller.SendAsync("EchoBack", text, value);

    public Task CallBack(string method, object value) => Clients.Caller.SendAsync(method, value);

    public Task CallBackMany(string method, object[] values) => Clients.Caller.SendCoreAsync(method, values);

    public async Task Burst(string method, int count, string text)
    {
        for (var number = 0; number < count; number++) await Clients.Caller.SendAsync(method, number, text);
    }

    // Calls of several clients

    public Task Broadcast(string method, string text) => Clients.All.SendAsync(method, text);

    public Task Others(string method, string text) => Clients.Others.SendAsync(method, text);

    public Task ToGroup(string group, string method, string text) => Clients.Group(group).SendAsync(method, text);

    public Task ToUser(string user, string method, string text) => Clients.User(user).SendAsync(method, text);

    public Task JoinGroup(string group) => Groups.AddToGroupAsync(Context.ConnectionId, group);

    public Task LeaveGroup(string group) => Groups.RemoveFromGroupAsync(Context.ConnectionId, group);

    // Results of the client. A connection that ends cancels the calls.

    public Task<object> AskClient(string method, object value) =>
        Clients.Caller.InvokeAsync<object>(method, value, Context.ConnectionAborted);

    public async Task<int> AskClientMany(string method, int count)
    {
        var sum = 0;
        for (var number = 0; number < count; number++)
        {
            sum += await Clients.Caller.InvokeAsync<int>(method, number, Context.ConnectionAborted);
        }
        return sum;
    }

    // The message of the error with which a call fails.
    public async Task<string> AskClientError(string method)
    {
        try
        {
            await Clients.Caller.InvokeAsync<object>(method, Context.ConnectionAborted);
            return "";
        }
        catch (Exception error)
        {
            return error.Message;
        }
    }

    public async Task InvokeWithClientResult(string text)
    {
        var result = await Clients.Caller.InvokeAsync<string>("ClientResult", text, Context.ConnectionAborted);
        await Clients.Caller.SendAsync("EchoBack", result);
    }

    public async Task InvokeWithEmptyClientResult(string text)
    {
        await Clients.Caller.InvokeAsync<object>("ClientResult", text, Context.ConnectionAborted);
        await Clients.Caller.SendAsync("EchoBack", "received");
    }

    // Helpers. They are private: a client can call all public methods.

    // Returns a stream that a task of its own writes.
    static ChannelReader<T> Produce<T>(Func<ChannelWriter<T>, Task> write)
    {
        var channel = Channel.CreateBounded<T>(16);
        _ = Run(write, channel.Writer);
        return channel.Reader;
    }

    static async Task Run<T>(Func<ChannelWriter<T>, Task> write, ChannelWriter<T> writer)
    {
        try
        {
            await write(writer);
            writer.Complete();
        }
        catch (Exception error)
        {
            writer.Complete(error);
        }
    }

    static async Task ForEach<T>(ChannelReader<T> items, Action<T> action)
    {
        while (await items.WaitToReadAsync()) action(await items.ReadAsync());
    }
}
